// A graph's nodes and expressions, as Python holds them.
#pragma once

#include <unordered_map>

#include "nodes.h"
#include "process.h"
#include "stored_type.h"

// What a graph has, until another one takes it over.
struct GraphData {
    Ref process, stored;
    Nodes nodes;
    std::vector<Ref> leaves;  // parameters and tables that it reads
    std::unordered_map<PyObject*, int32_t> leaf_numbers;
    PyObject* latest_leaf = nullptr;
    int32_t latest_number = 0;
    Ref arrays;    // of weights, as they were when first read, by kind; a dict
    Ref executor;  // of tier 0, where that has computed all that was asked for so far
    size_t most_nodes = 0, most_bytes = 0;  // beyond which the executor is not to be used
    int32_t root = -1;                      // of the last backward, if that was without Python
    bool busy = false;
    bool watched = false;    // whoever makes a node tells Python
    bool immediate = false;  // but only what C++ could not compute at once, or what came to no number
    bool orphan = false;     // it is nobody's but its holders'
    int32_t holders = 0;     // who are about to do something with it
    int64_t unlike = 0;      // how many nodes were made that another call would not make so

    explicit GraphData(PyObject* structures)
        : process(Py_NewRef(structures_in(structures))),
          stored(new_stored()),
          nodes(known().structures, *((StoredObject*)stored.get())->nodes) {}
    Process& known() { return *((StructuresObject*)process.get())->process; }
    StoredNodes& stored_nodes() { return *((StoredObject*)stored.get())->nodes; }
    PyObject* given() { return ((StoredObject*)stored.get())->given; }
    void start_anew() {
        nodes.start_anew();
        executor = Ref();
    }
    void forget_leaves() {
        leaves.clear();
        leaf_numbers.clear();
        latest_leaf = nullptr;
        StoredObject* s = (StoredObject*)stored.get();
        s->parameters->clear();
        s->tables->clear();
    }
    const Signature& signature(int32_t node) {
        return known().structures.signatures[(size_t)nodes.made[(size_t)node].signature];
    }
    int32_t ref_of(PyObject* leaf);  // what nodes read that read a leaf
};

struct NodesObject {
    PyObject_HEAD GraphData* data;  // null once the graph was renewed
};

class Held {  // as long as this lives, a graph's nodes are not freed
public:
    explicit Held(NodesObject* graph) : graph_(Py_NewRef((PyObject*)graph)), g_(graph->data) {
        if (!g_) fail(PyExc_ValueError, "the graph was renewed");
        g_->holders++;
    }
    Held(const Held&) = delete;
    ~Held() {
        if (!--g_->holders && g_->orphan) delete g_;
    }
    GraphData& data() const { return *g_; }
    // After Python was called, which may have renewed the graph.
    void check() const {
        if (((NodesObject*)graph_.get())->data != g_) fail(PyExc_ValueError, "the graph was renewed");
    }

private:
    Ref graph_;
    GraphData* g_;
};

class Busy {  // the same, and nobody else changes those that are there
public:
    explicit Busy(NodesObject* graph) : held_(graph) {
        if (data().busy) fail(PyExc_RuntimeError, "the graph is being computed");
        data().busy = true;
    }
    Busy(const Busy&) = delete;
    ~Busy() { data().busy = false; }
    GraphData& data() const { return held_.data(); }
    void check() const { held_.check(); }

private:
    Held held_;
};

// A node of a graph, as a user has it. No garbage collector looks at it: a graph refers to none.
struct ExpressionObject {
    PyObject_HEAD NodesObject* graph;  // null: a leaf
    int32_t index;
    uint32_t generation;
};

// A parameter, or a table.
struct LeafObject {
    ExpressionObject expression;
    PyObject* signature;
    PyObject* storage;
    bool constant;
    int32_t kind;  // the id of it, in Python
};

// A table whose rows can be looked up.
struct TableObject {
    LeafObject leaf;
    PyObject* row_signature;
    int32_t rows_kind;  // of what is looked up in
    long rows;
};

extern PyTypeObject *expression_type, *leaf_type, *nodes_type;

inline bool is_expression(PyObject* x) {
    return Py_IS_TYPE(x, expression_type) || PyType_IsSubtype(Py_TYPE(x), expression_type);
}
inline bool is_leaf(PyObject* x) { return !((ExpressionObject*)x)->graph; }
inline bool is_parameter(PyObject* x) {
    return PyType_IsSubtype(Py_TYPE(x), leaf_type) && ((LeafObject*)x)->signature;
}
// The graph of an expression that is none of a leaf, where it lives; null if it is stale.
inline GraphData* data_of(PyObject* x) {
    ExpressionObject* e = (ExpressionObject*)x;
    GraphData* g = e->graph->data;
    if (!g || (size_t)e->index >= g->nodes.made.size() ||
        g->nodes.made[(size_t)e->index].generation != e->generation)
        return nullptr;
    return g;
}
// Null with an exception set where the graph has no such node.
PyObject* new_expression(NodesObject* graph, int32_t node);
// The graph of this thread; null with an exception set if there is none.
NodesObject* current_graph();
// The number among the stored nodes of one whose rows tier 0 has, which computes what is new; -1: it is
// not for that.
int32_t computed(NodesObject* graph, int32_t node);
// Add the gradients of a node of one number to storages; false if it is not for that.
bool went_back(NodesObject* graph, int32_t node);
// Before a number is handed to the user: something may have to be raised first.
void before_reading();
// Tell Python of nodes that the user made, from number `first` among the user's on.
void tell_of(NodesObject* graph, size_t first);
