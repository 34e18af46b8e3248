// Records what DyNet's SimpleRNNBuilder computes with lags, which only C++ has:
//
//   g++ -O1 -std=c++11 -I DYNET/include -I EIGEN record_lags.cc -L DYNET/lib -ldynet
//
// Parameters and inputs are those of tests/builders/golden.py. Each line has the
// outputs of both layers; the inputs are x_0, then x_1 beside x = (0.3, -0.6).

#include <dynet/init.h>
#include <dynet/rnn.h>
#include <cmath>
#include <cstdio>

using namespace dynet;

static std::vector<float> filled(int n, const Dim& dim) {
  std::vector<float> values(dim.size());
  for (unsigned r = 0; r < dim.rows(); ++r)
    for (unsigned c = 0; c < dim.cols(); ++c)
      values[c * dim.rows() + r] =
          0.5 * std::sin(1.3 * n + 0.7 * (r * dim.cols() + c) + 0.1);
  return values;
}

static Expression x(ComputationGraph& cg, int t) {
  std::vector<float> values;
  for (int j = 0; j < 3; ++j) values.push_back(std::cos(0.9 * t + 0.5 * j));
  return input(cg, Dim({3}), values);
}

static void show(const char* name, ComputationGraph& cg, SimpleRNNBuilder& rnn) {
  std::printf("%s", name);
  for (auto& h : rnn.final_h())
    for (float v : as_vector(cg.incremental_forward(h))) std::printf(" %.6f", v);
  std::printf("\n");
}

int main(int argc, char** argv) {
  initialize(argc, argv);
  ParameterCollection model;
  SimpleRNNBuilder rnn(2, 3, 2, model, true);
  int n = 0;
  for (auto& layer : rnn.params)
    for (auto& p : layer) {
      std::printf("%s {%u,%u}\n", p.get_fullname().c_str(), p.dim().rows(), p.dim().cols());
      p.set_value(filled(n++, p.dim()));
    }
  ComputationGraph cg;
  rnn.new_graph(cg);
  rnn.start_new_sequence();
  std::vector<float> aux = {0.3, -0.6};
  rnn.add_auxiliary_input(x(cg, 0), input(cg, Dim({2}), aux));
  show("lag at first", cg, rnn);
  rnn.start_new_sequence();
  rnn.add_input(x(cg, 0));
  show("input", cg, rnn);
  rnn.add_auxiliary_input(x(cg, 1), input(cg, Dim({2}), aux));
  show("lag", cg, rnn);
  return 0;
}
