// Writes the numbers that DyNet's builders without a Python interface give:
//
//   g++ -O1 -std=c++11 -I $DYNET/include -I /usr/include/eigen3 record.cc \
//       -L $DYNET/lib -ldynet -Wl,-rpath,$DYNET/lib -o record && ./record > recorded.json
//
// First values follow from the seed. Then parameters are filled as golden.py does it,
// with n counting parameters in order of creation, and tables row by row.
#include "dynet/dynet.h"
#include "dynet/expr.h"
#include "dynet/hsm-builder.h"
#include "dynet/io.h"
#include "dynet/treelstm.h"
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>

using namespace dynet;
using namespace std;

static bool first_entry = true;

static void numbers(const string& key, const vector<float>& values) {
  printf("%s\n\"%s\": [", first_entry ? "{" : ",", key.c_str());
  first_entry = false;
  for (size_t k = 0; k < values.size(); ++k) printf("%s%.9g", k ? ", " : "", values[k]);
  printf("]");
}

static float filled(int n, int k) { return 0.5 * sin(1.3 * n + 0.7 * k + 0.1); }

static void fill(Parameter p, int n) {
  Dim d = p.dim();
  vector<float> v(d.size());
  unsigned rows = d.rows(), cols = d.cols();
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned c = 0; c < cols; ++c) v[c * rows + r] = filled(n, r * cols + c);
  p.set_value(v);
}

static void fill(LookupParameter p, int n) {
  Dim d = p.dim();
  unsigned rows = d.rows(), cols = d.cols(), count = p.get_storage().values.size();
  for (unsigned e = 0; e < count; ++e) {
    vector<float> v(d.size());
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned c = 0; c < cols; ++c)
        v[c * rows + r] = filled(n, (e * rows + r) * cols + c);
    p.initialize(e, v);
  }
}

static void fill_nary(NaryTreeLSTMBuilder& b, unsigned layers) {
  // Created as W_i U_i V_i b_i, W_f .., W_o .., W_c U_c b_c; held as W b .., U .., V ..
  const int dense[] = {0, 3, 4, 7, 8, 11, 12, 14}, tables[] = {1, 5, 9, 13, 2, 6, 10};
  for (unsigned l = 0; l < layers; ++l) {
    for (int k = 0; k < 8; ++k) fill(b.params[l][k], 15 * l + dense[k]);
    for (int k = 0; k < 7; ++k) fill(b.lparams[l][k], 15 * l + tables[k]);
  }
}

static vector<float> input(int t, int size) {
  vector<float> v(size);
  for (int j = 0; j < size; ++j) v[j] = cos(0.9 * t + 0.5 * j);
  return v;
}

static const vector<vector<int>> CHILDREN = {{}, {}, {0, 1}, {}, {2}, {4, 3, 2}};

template <class B>
static void outputs(B& b, const string& key, int size, ParameterCollection& m) {
  ComputationGraph cg;
  b.new_graph(cg);
  b.start_new_sequence();
  vector<Expression> found;
  for (size_t k = 0; k < CHILDREN.size(); ++k)
    found.push_back(
        b.add_input(k, CHILDREN[k], dynet::input(cg, {(unsigned)size}, input(k, size))));
  Expression all = concatenate(found);
  numbers(key + " outputs", as_vector(cg.forward(all)));
  cg.backward(sum_elems(square(all)));
  vector<float> norms;
  for (auto& p : m.get_storage().params) {
    vector<float> g = as_vector(p->g);
    float s = 0;
    for (float x : g) s += x * x;
    norms.push_back(s);
  }
  numbers(key + " squared gradients of parameters", norms);
  norms.clear();
  for (auto& p : m.get_storage().lookup_params) {
    vector<float> g = as_vector(p->all_grads);
    float s = 0;
    for (float x : g) s += x * x;
    norms.push_back(s);
  }
  numbers(key + " squared gradients of tables", norms);
}

static void first_values(const string& key, ParameterCollection& m) {
  vector<float> found;
  for (auto& p : m.get_storage().params)
    for (float x : as_vector(p->values)) found.push_back(x);
  for (auto& p : m.get_storage().lookup_params)
    for (float x : as_vector(p->all_values)) found.push_back(x);
  numbers(key + " first values", found);
}

static void trees() {
  for (unsigned N : {1u, 2u, 3u}) {
    string key = "nary " + to_string(N);
    ParameterCollection m;
    NaryTreeLSTMBuilder b(N, 2, 3, 2, m);
    if (N == 2) first_values(key, m);
    fill_nary(b, 2);
    outputs(b, key, 3, m);
  }
  {
    ParameterCollection m;
    UnidirectionalTreeLSTMBuilder b(2, 2, 2, m);
    int n = 0;
    for (auto& layer : b.node_builder.params) for (auto& p : layer) fill(p, n++);
    outputs(b, "unidirectional", 2, m);
  }
  {
    ParameterCollection m;
    BidirectionalTreeLSTMBuilder b(2, 4, 4, m);
    int n = 0;
    for (auto* lstm : {&b.fwd_node_builder, &b.rev_node_builder})
      for (auto& layer : lstm->params) for (auto& p : layer) fill(p, n++);
    outputs(b, "bidirectional", 4, m);
  }
}

static void hierarchical() {
  const char* path = "clusters.txt.tmp";
  ofstream(path) << "0 0\ta\n0 0\tb\n0 1\tc\n1\td 7\n1\te\n1\tf\n2\tg\n3  0\th\n3  1\ti\n";
  Dict words;
  for (const char* w : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) words.convert(w);
  words.freeze();
  ParameterCollection m;
  HierarchicalSoftmaxBuilder b(3, path, words, m);
  remove(path);
  first_values("hierarchical", m);
  vector<float> shapes;
  int n = 0;
  for (auto& p : m.get_storage().params) {
    shapes.push_back(p->dim.rows());
    shapes.push_back(p->dim.cols());
    fill(Parameter(p), n++);
  }
  numbers("hierarchical shapes", shapes);
  vector<float> losses;
  ComputationGraph cg;
  b.new_graph(cg);
  Expression x = dynet::input(cg, {3}, input(1, 3));
  vector<Expression> all;
  for (unsigned w = 0; w < 9; ++w) all.push_back(b.neg_log_softmax(x, w));
  Expression every = concatenate(all);
  numbers("hierarchical losses", as_vector(cg.forward(every)));
  cg.backward(sum_elems(square(every)));
  vector<float> gradients;
  for (auto& p : m.get_storage().params)
    for (float g : as_vector(p->g)) gradients.push_back(g);
  numbers("hierarchical gradients", gradients);
}

int main(int argc, char** argv) {
  DynetParams p;
  p.random_seed = 7;
  initialize(p);
  trees();
  hierarchical();
  printf("\n}\n");
}
