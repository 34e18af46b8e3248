// Takes stored nodes into an executor: their programs, weights, runtime data and rows from outside.
#pragma once

#include <optional>
#include <unordered_map>

#include "executor.h"
#include "stored_type.h"

constexpr long DONE = -1;

class Encoder {
public:
    Encoder(PyObject* t, Ref p, Ref a)
        : tables(Py_NewRef(t)), programs(std::move(p)), arrays(std::move(a)) {}

    Executor executor;
    Ref tables;    // Python's side: programs, weights, rows of tables; None until it is asked for
    Ref programs;  // a dict of those that are known, by number
    Ref arrays;    // of weights as they were when first read, by kind
    PyObject* whose = nullptr;  // graph, that is asked for Python's side, while it computes
    bool busy = false;          // somebody computes here

    // Take in the stored nodes from `start` on, and compute them: DONE, or the number of a fused op that has
    // no program.
    long extend(const StoredObject* stored, int32_t start);

private:
    const StoredObject* stored_ = nullptr;         // what it takes in
    std::unordered_map<long, int32_t> use_;        // by number of the fused op
    std::vector<View> views_;                      // of weights, which must not go
    std::unordered_map<int32_t, size_t> weights_;  // where these are, by kind
    std::vector<std::optional<uint64_t>> seeds_;   // of random numbers, by how often they began again

    PyObject* asked();  // Python's side
    View view_of(int32_t kind);
    const float* weight_of(int32_t kind, int64_t size);
    int32_t use_of(long fused);
    int32_t use_of_rows(int32_t size);
    long encode(const StoredNodes& stored, int32_t start);
    void append_data(Node& c, const Program& p, const StoredNodes& stored, const StoredNode& from);
    void append_keys(long node, int32_t lanes);
    uint64_t seed_of(PyObject* draws, size_t epoch);
    void fetch(int32_t number);
    void read_inputs(int32_t start);
    void look_up();
};

class Computing {  // as long as this lives, nobody else computes there, or cuts it
public:
    explicit Computing(Encoder& s) : s_(s) {
        if (s.busy) fail(PyExc_RuntimeError, "the graph is being computed");
        s.busy = true;
    }
    Computing(const Computing&) = delete;
    ~Computing() { s_.busy = false; }

private:
    Encoder& s_;
};
