// The executor for Python: `Program`, `Graph`, `OPCODES`.
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

#include "draws.h"
#include "executor.h"
#include "graph.h"
#include "kernels.h"
#include "storage_type.h"
#include "stored_type.h"

namespace {

struct Names {
    PyObject *program, *weight, *lookup, *rows, *draws, *starts, *seed, *tables, *zeros, *add_rows;
};
Names names;

// Program ------------------------------------------------------------------------------

struct ProgramObject {
    PyObject_HEAD std::shared_ptr<const Program>* program;
};
PyTypeObject *program_type, *executor_type;

PyObject* programmed(PyTypeObject* type, std::shared_ptr<Program> p) {
    const std::string wrong = p->check();
    if (!wrong.empty()) fail(PyExc_ValueError, wrong.c_str());
    p->count();
    Ref self = owned(type->tp_alloc(type, 0));
    ((ProgramObject*)self.get())->program = new std::shared_ptr<const Program>(std::move(p));
    return self.release();
}
PyObject* new_program(PyTypeObject* type, PyObject* args, PyObject* named) {
    return guarded([&]() -> PyObject* {
        int form, size, weighted = 0, temporary = 0, saved = 0, hoisted = 0, table = -1, pieces = 0,
                        outer = 1;
        const char* types = "";
        PyObject *sizes = nullptr, *weights = nullptr, *weight_sizes = nullptr, *forward = nullptr,
                 *backward = Py_None, *extra = nullptr, *constants = nullptr, *asides = nullptr;
        const char* keywords[] = {"form",      "size",         "weighted", "sizes",    "types",
                                  "weights",   "weight_sizes", "forward",  "backward", "extra",
                                  "constants", "temporary",    "saved",    "hoisted",  "asides",
                                  "table",     "pieces",       "outer",    nullptr};
        if (!PyArg_ParseTupleAndKeywords(args, named, "ii|$pOsOOOOOOiiiOiii", const_cast<char**>(keywords),
                                         &form, &size, &weighted, &sizes, &types, &weights, &weight_sizes,
                                         &forward, &backward, &extra, &constants, &temporary, &saved,
                                         &hoisted, &asides, &table, &pieces, &outer))
            throw Failed();
        auto p = std::make_shared<Program>();
        if (form < 0 || form > (int)Form::JOIN) fail(PyExc_ValueError, "no such form");
        p->form = (Form)form, p->size = size, p->weighted = weighted;
        p->sizes = given<int32_t>(sizes), p->data = types;
        p->weights = given<int32_t>(weights), p->weight_sizes = given<int32_t>(weight_sizes);
        p->forward = given<Instruction>(forward);
        p->differentiable = backward != Py_None;
        if (p->differentiable) p->backward = given<Instruction>(backward);
        p->extra = given<int32_t>(extra), p->constants = given<float>(constants);
        p->temporary = temporary, p->saved = saved, p->hoisted = hoisted, p->table = table,
        p->pieces = pieces, p->outer = outer;
        const auto pairs = given<int32_t>(asides);
        for (size_t k = 0; k + 1 < pairs.size(); k += 2) p->asides.push_back({pairs[k], pairs[k + 1]});
        if (p->form == Form::JOIN && (pieces < 1 || outer < 1 || size % pieces || size / pieces % outer))
            fail(PyExc_ValueError, "pieces that are no part of a row");
        return programmed(type, std::move(p));
    });
}
// (weights): the same code for other weights.
PyObject* bound(PyObject* self, PyObject* weights) {
    return guarded([&]() -> PyObject* {
        auto p = std::make_shared<Program>(**((ProgramObject*)self)->program);
        const auto kinds = copied<int32_t>(weights);
        if (kinds.size() != p->weights.size()) fail(PyExc_ValueError, "bound to another number of things");
        p->weights = kinds;
        return programmed(Py_TYPE(self), std::move(p));
    });
}
void free_program(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete ((ProgramObject*)self)->program;
    type->tp_free(self);
    Py_DECREF(type);
}

// Graph --------------------------------------------------------------------------------

struct GraphState {
    Graph graph;
    Ref tables;    // Python's side: programs, weights, rows of tables; None until it is asked for
    Ref programs;  // a dict of those that are known, by number
    Ref arrays;    // of weights as they were when first read, by kind
    PyObject* whose = nullptr;              // graph, that is asked for Python's side, while it computes
    const StoredObject* stored = nullptr;   // what it computes
    std::unordered_map<long, int32_t> use;  // by number of the fused op
    std::vector<View> views;                // of weights, which must not go
    std::unordered_map<int32_t, size_t> weights;  // where these are, by kind
    bool busy = false;                            // somebody computes here
    GraphState(PyObject* t, Ref p, Ref a)
        : tables(Py_NewRef(t)), programs(std::move(p)), arrays(std::move(a)) {}

    PyObject* asked();  // Python's side
    View view_of(int32_t kind);
    const float* weight_of(int32_t kind, int64_t size);

    int32_t use_of(long fused);
    int32_t use_of_rows(int32_t size);
    long encode(const StoredNodes& stored, int32_t start);
    void append_data(Node& c, const Program& p, const StoredNodes& stored, const StoredNode& from);
    void fetch(int32_t number);
    void look_up();
    std::vector<std::optional<uint64_t>> seeds;  // of random numbers, by how often they began again
    uint64_t seed_of(PyObject* draws, size_t epoch);
    void append_keys(long node, int32_t lanes);
};
struct GraphObject {
    PyObject_HEAD GraphState* state;
};

PyObject* GraphState::asked() {
    if (tables.get() == Py_None && whose) tables = owned(PyObject_CallMethodNoArgs(whose, names.tables));
    return tables.get();
}

// The numbers of a weight as they were when first read: those of a parameter without Python.
View GraphState::view_of(int32_t kind) {
    const Ref number = owned(PyLong_FromLong(kind));
    PyObject* known = PyDict_GetItemWithError(arrays.get(), number.get());
    if (known) return View(Ref(Py_NewRef(known)).get());
    if (PyErr_Occurred()) throw Failed();
    const auto at = stored->parameters->find(kind);
    Numbers numbers;
    if (at != stored->parameters->end() && read_values(at->second.storage.get(), numbers)) {
        if (PyDict_SetItem(arrays.get(), number.get(), numbers.array().get())) throw Failed();
        return View(numbers.array().get());
    }
    return View(owned(PyObject_CallMethodOneArg(asked(), names.weight, number.get())).get());
}

const float* GraphState::weight_of(int32_t kind, int64_t size) {
    auto at = weights.find(kind);
    if (at == weights.end()) {
        views.push_back(view_of(kind));
        at = weights.emplace(kind, views.size() - 1).first;
    }
    const View& view = views[at->second];
    if ((int64_t)view.words() < size) fail(PyExc_ValueError, "a weight is too small");
    return view.as<float>();
}

// -1: there is no program for it.
int32_t GraphState::use_of(long fused) {
    const auto known = use.find(fused);
    if (known != use.end()) return known->second;
    Ref number = owned(PyLong_FromLong(fused));
    Ref found(Py_XNewRef(PyDict_GetItemWithError(programs.get(), number.get())));
    if (!found.get()) {
        if (PyErr_Occurred()) throw Failed();
        found = owned(PyObject_CallMethodOneArg(asked(), names.program, number.get()));
    }
    if (found.get() == Py_None) return -1;
    Use u;
    u.program = program_in(found.get());
    u.number = (int32_t)fused;
    for (size_t k = 0; k < u.program->weights.size(); k++)
        u.weights.push_back(weight_of(u.program->weights[k], u.program->weight_sizes[k]));
    graph.uses.push_back(std::move(u));
    return use[fused] = (int32_t)graph.uses.size() - 1;
}

// A use for rows of a size that come from outside.
int32_t GraphState::use_of_rows(int32_t size) {
    const long key = -1 - (long)size;
    const auto known = use.find(key);
    if (known != use.end()) return known->second;
    auto p = std::make_shared<Program>();
    p->form = Form::INPUT, p->size = size, p->weighted = false;
    Use u;
    u.program = p, u.number = -1;
    graph.uses.push_back(std::move(u));
    return use[key] = (int32_t)graph.uses.size() - 1;
}

// Have the rows of a node that something else has computed.
void GraphState::fetch(int32_t n) {
    Ref which = owned(PyLong_FromLong(n));
    Ref found = owned(PyObject_CallMethodOneArg(asked(), names.rows, which.get()));
    const View v(found.get());
    const Py_buffer& b = v.raw();
    if (b.ndim < 1 || b.itemsize != 4 || b.shape[0] < 1)
        fail(PyExc_ValueError, "rows are not [batch, *shape] of float32");
    Node& c = graph.nodes[n];
    c.lanes = narrow(b.shape[0]);
    c.use = use_of_rows(narrow((int64_t)v.words() / b.shape[0]));
    graph.external(n, v.as<float>());
}

// Asked for once.
uint64_t GraphState::seed_of(PyObject* draws, size_t epoch) {
    if (epoch >= seeds.size()) seeds.resize(epoch + 1);
    if (!seeds[epoch]) {
        Ref which = owned(PyLong_FromSize_t(epoch));
        Ref found = owned(PyObject_CallMethodOneArg(draws, names.seed, which.get()));
        seeds[epoch] = PyLong_AsUnsignedLongLong(found.get());
        if (PyErr_Occurred()) {
            seeds[epoch].reset();
            throw Failed();
        }
    }
    return *seeds[epoch];
}

// Random keys of a node by its number among the user's.
void GraphState::append_keys(long node, int32_t lanes) {
    Ref draws = attribute(asked(), names.draws), starts = attribute(draws.get(), names.starts);
    if (!PyList_Check(starts.get())) fail(PyExc_TypeError, "starts of random numbers are no list");
    size_t epoch = (size_t)PyList_GET_SIZE(starts.get());
    long start = 0;
    for (; epoch; epoch--) {
        start = integer(item(starts.get(), (Py_ssize_t)epoch - 1).get());
        if (start <= node) break;
    }
    if (!epoch) start = 0;
    const uint64_t seed = seed_of(draws.get(), epoch);
    const size_t at = graph.words.size();
    graph.words.resize(at + 2 * (size_t)lanes);
    write_keys(seed, (uint64_t)(node - start), lanes, graph.words.data() + at);
}

// Words of a node's runtime data; what asks Python for anything reads them anew after that.
const int32_t* words_of(const StoredNodes& stored, const StoredNode& c, int32_t at, int32_t count) {
    if ((int64_t)at + count > c.words || (size_t)c.data + c.words > stored.data.size())
        fail(PyExc_ValueError, "runtime data is missing");
    return stored.data.data() + c.data + at;
}

void GraphState::append_data(Node& c, const Program& p, const StoredNodes& stored, const StoredNode& from) {
    if (p.data.empty()) return;
    c.data = narrow((int64_t)graph.words.size());
    int32_t at = 0;
    for (const char type : p.data) {
        const int32_t count = type == 'k' ? 1 : c.lanes;
        const int32_t* given = words_of(stored, from, at, count);
        if (type == 'k')
            append_keys(*given, c.lanes);
        else
            graph.words.insert(graph.words.end(), given, given + count);
        at += count;
    }
}

constexpr long DONE = -1;

// Take in the nodes from `start` on: DONE, or the number of a fused op that has no program.
long GraphState::encode(const StoredNodes& stored, int32_t start) {
    const int32_t stop = stored.size();
    if (start > stop) fail(PyExc_ValueError, "fewer nodes than were computed");
    if (start > (int32_t)graph.nodes.size()) graph.nodes.resize((size_t)start, EXTERNAL);
    if (start != (int32_t)graph.nodes.size()) fail(PyExc_ValueError, "nodes that were computed before");
    for (int32_t n = start; n < stop; n++) {
        if (n >= stored.size()) fail(PyExc_IndexError, "no such node");
        const StoredNode from = stored.nodes[(size_t)n];
        const int32_t u = use_of((long)from.fused);
        if (u < 0) return from.fused;
        const Program& p = *graph.uses[u].program;
        Node c{u,          from.lanes, narrow((int64_t)graph.refs.size()),
               from.count, -1,         -1,
               0,          from.index, nullptr,
               false,      false,      false};
        if (c.lanes < 1) fail(PyExc_ValueError, "a node without rows");
        if (p.form == Form::LOOKUP) {
            if (from.words != c.lanes) fail(PyExc_ValueError, "rows for another batch");
            const int32_t* data = words_of(stored, from, 0, from.words);
            c.data = narrow((int64_t)graph.words.size());
            graph.words.insert(graph.words.end(), data, data + from.words);
        } else if (p.form == Form::MAP) {
            if (from.count != (int32_t)p.sizes.size()) fail(PyExc_ValueError, "an operand is missing");
            append_data(c, p, stored, from);
        } else if (from.words) {
            const int32_t* data = words_of(stored, from, 0, from.words);
            c.data = narrow((int64_t)graph.words.size());
            graph.words.insert(graph.words.end(), data, data + from.words);
        }
        if ((size_t)from.first + from.count > stored.reads.size()) fail(PyExc_IndexError, "no such node");
        graph.refs.insert(graph.refs.end(), stored.reads.begin() + from.first,
                          stored.reads.begin() + from.first + from.count);
        for (int32_t k = 0; k < c.count; k++) {
            const int32_t r = graph.refs[c.reads + k];
            if (r < NOTHING || r >= n) fail(PyExc_ValueError, "a node reads a later one");
            if (r == NOTHING) continue;
            if (graph.nodes[r].external && !graph.nodes[r].value) fetch(r);
            const Node& x = graph.nodes[r];
            const int32_t wanted = p.form == Form::MAP    ? p.sizes[k]
                                   : p.form == Form::JOIN ? p.size / p.pieces
                                                          : p.size;
            if (graph.uses[x.use].program->size != wanted)
                fail(PyExc_ValueError, "a node reads a row of another size");
        }
        const Reading reading = p.form == Form::REDUCE   ? Reading::SUM
                                : p.form == Form::GATHER ? Reading::COPIES
                                                         : Reading::BY_LANE;
        const int32_t* elements =
            reading != Reading::BY_LANE && c.data >= 0 ? graph.words.data() + c.data : nullptr;
        check_reads(reading, c.lanes, graph.refs.data() + c.reads, c.count, elements, from.words,
                    [&](int32_t r) { return graph.nodes[r].lanes; });
        if (p.form == Form::JOIN && c.count > p.pieces) fail(PyExc_ValueError, "too many pieces");
        graph.nodes.push_back(c);
    }
    return DONE;
}

void copy_rows(const Numbers& table, const std::vector<int32_t>& ids, int32_t size, float* to) {
    const int64_t rows = (int64_t)table.size() / std::max(size, 1);
    for (int32_t id : ids) {
        if (id < 0 || id >= rows) fail(PyExc_IndexError, "no such row");
        memcpy(to, table.data() + (int64_t)id * size, 4 * (size_t)size);
        to += size;
    }
}

// The rows of tables.
void GraphState::look_up() {
    std::vector<int32_t> ids;
    for (size_t k = graph.fresh(); k < graph.groups.size(); k++) {
        const Group& g = graph.groups[k];
        const Program& p = *graph.uses[g.use].program;
        if (p.form != Form::LOOKUP) continue;
        ids.clear();
        for (int32_t i = 0; i < g.count; i++) {
            const Node& c = graph.nodes[graph.order[g.first + i]];
            ids.insert(ids.end(), graph.words.begin() + c.data, graph.words.begin() + c.data + c.lanes);
        }
        const auto at = stored->tables->find(p.table);
        Numbers numbers;
        if (at != stored->tables->end() && read_values(at->second.get(), numbers)) {
            copy_rows(numbers, ids, p.size, g.value);
            continue;
        }
        Ref kind = owned(PyLong_FromLong(p.table));
        Ref which = owned(PyBytes_FromStringAndSize((const char*)ids.data(), 4 * ids.size()));
        Ref found =
            owned(PyObject_CallMethodObjArgs(asked(), names.lookup, kind.get(), which.get(), nullptr));
        const View v(found.get());
        if (v.words() != ids.size() * p.size) fail(PyExc_ValueError, "rows of a table have another size");
        memcpy(g.value, v.as<float>(), 4 * v.words());
    }
}

GraphState& state_of(PyObject* self) { return *((GraphObject*)self)->state; }
PyObject* new_graph(PyTypeObject* type, PyObject* args, PyObject*) {
    (void)std::uncaught_exceptions();  // as in the crew's threads
    return guarded([&]() -> PyObject* {
        PyObject *tables, *known = nullptr, *read = nullptr;
        int timed = 0;
        if (!PyArg_ParseTuple(args, "O|O!pO!", &tables, &PyDict_Type, &known, &timed, &PyDict_Type, &read))
            throw Failed();
        Ref programs = owned(known ? Py_NewRef(known) : PyDict_New());
        Ref arrays = owned(read ? Py_NewRef(read) : PyDict_New());
        Ref self = owned(type->tp_alloc(type, 0));
        ((GraphObject*)self.get())->state = new GraphState(tables, std::move(programs), std::move(arrays));
        state_of(self.get()).graph.timed = timed;
        return self.release();
    });
}
int traverse_graph(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    GraphState* s = ((GraphObject*)self)->state;
    if (s) Py_VISIT(s->tables.get());
    if (s) Py_VISIT(s->programs.get());
    if (s) Py_VISIT(s->arrays.get());
    return 0;
}
int clear_graph(PyObject* self) {
    GraphState* s = ((GraphObject*)self)->state;
    if (!s) return 0;
    s->tables = Ref(Py_NewRef(Py_None));
    return 0;
}
void free_graph(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    delete ((GraphObject*)self)->state;
    type->tp_free(self);
    Py_DECREF(type);
}

class Busy {  // as long as this lives, nobody else computes in a graph, or cuts it
public:
    explicit Busy(GraphState& s) : s_(s) {
        if (s.busy) fail(PyExc_RuntimeError, "the graph is being computed");
        s.busy = true;
    }
    Busy(const Busy&) = delete;
    ~Busy() { s_.busy = false; }

private:
    GraphState& s_;
};

class Undo {  // brings a graph back to where it was, if nobody keeps what came since
public:
    Undo(Graph& graph, Graph::Mark since) : graph_(graph), since_(since) {}
    Undo(const Undo&) = delete;
    ~Undo() {
        if (!kept_) graph_.rewind(since_);
    }
    void keep(size_t start) {  // before which others may have computed nodes
        since_.nodes = start;
        graph_.keep(since_);
        kept_ = true;
    }

private:
    Graph& graph_;
    Graph::Mark since_;
    bool kept_ = false;
};

// Compute the nodes from `start` on: DONE, or the number of a fused op that has no program.
long extend_by(GraphState& s, const StoredObject* stored, int32_t start) {
    const Busy busy(s);
    if (start < 0) fail(PyExc_ValueError, "less than no nodes");
    // an interrupt may have come before the caller knew what was computed
    if (start < (int32_t)s.graph.nodes.size()) s.graph.cut(start);
    Undo undo{s.graph, s.graph.mark()};
    s.stored = stored;
    const long outcome = s.encode(*stored->nodes, start);
    if (outcome != DONE) return outcome;
    if (stored->nodes->size() < (int32_t)s.graph.nodes.size()) fail(PyExc_IndexError, "no such node");
    s.graph.arrange(start);
    for (size_t n = (size_t)start; n < s.graph.nodes.size(); n++) {
        const Node& c = s.graph.nodes[n];
        const Program& p = *s.graph.uses[c.use].program;
        if (p.form != Form::INPUT) continue;
        const Ref data = array_of(stored, stored->nodes->nodes[n]);
        const View v(data.get());
        if (v.words() != (size_t)c.lanes * p.size || v.raw().itemsize != 4)
            fail(PyExc_ValueError, "an input of another size");
        memcpy(c.value, v.as<float>(), v.bytes());
    }
    s.look_up();
    {
        const Released released;
        s.graph.compute();
    }
    undo.keep((size_t)start);
    return DONE;
}
// (stored nodes, start): likewise; -1 where all is done.
PyObject* extend(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* given;
        int start;
        if (!PyArg_ParseTuple(args, "Oi", &given, &start)) throw Failed();
        return PyLong_FromLong(extend_by(state_of(self), stored_in(given), start));
    });
}

const Node& node_of(GraphState& s, PyObject* which) {
    const long n = integer(which);
    if (n < 0 || n >= (long)s.graph.nodes.size() || !s.graph.nodes[n].value)
        fail(PyExc_IndexError, "no such node");
    return s.graph.nodes[n];
}
// The rows of a node, as bytes.
PyObject* rows(PyObject* self, PyObject* which) {
    return guarded([&]() -> PyObject* {
        GraphState& s = state_of(self);
        const Busy busy(s);
        const Node& c = node_of(s, which);
        return PyBytes_FromStringAndSize((const char*)c.value,
                                         4L * c.lanes * s.graph.uses[c.use].program->size);
    });
}
PyObject* number_of(PyObject* self, PyObject* which) {
    return guarded([&]() -> PyObject* {
        GraphState& s = state_of(self);
        const Busy busy(s);
        const Node& c = node_of(s, which);
        return PyFloat_FromDouble(*c.value);  // of any node: there are no rows without numbers
    });
}
// Write the rows of a node as doubles, the first index fastest and the batch last.
PyObject* array(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *which, *to;
        if (!PyArg_ParseTuple(args, "OO", &which, &to)) throw Failed();
        GraphState& s = state_of(self);
        const Busy busy(s);
        const Node& c = node_of(s, which);
        const View v(to, PyBUF_F_CONTIGUOUS | PyBUF_WRITABLE);
        const Py_buffer& b = v.raw();
        const int axes = b.ndim - (c.lanes > 1);
        const long size = s.graph.uses[c.use].program->size;
        if (b.itemsize != 8 || b.len != 8 * size * c.lanes || axes < 1)
            fail(PyExc_ValueError, "an array of another size");
        double* out = v.as<double>();
        const float* row = c.value;
        if (axes == 1) {
            std::copy(row, row + size * c.lanes, out);
            Py_RETURN_NONE;
        }
        std::vector<Py_ssize_t> at(axes), apart(axes, 1);  // of each axis, in the result
        for (int k = 1; k < axes; k++) apart[k] = apart[k - 1] * b.shape[k - 1];
        for (int32_t l = 0; l < c.lanes; l++, out += size) {
            Py_ssize_t place = 0;
            for (long i = 0; i < size; i++) {
                out[place] = *row++;
                for (int k = axes; k--;) {  // the last index is fastest in a row
                    place += apart[k];
                    if (++at[k] < b.shape[k]) break;
                    place -= apart[k] * b.shape[k], at[k] = 0;
                }
            }
        }
        Py_RETURN_NONE;
    });
}
// Those of its gradient in the last backward; None if that did not reach it.
PyObject* gradient(PyObject* self, PyObject* which) {
    return guarded([&]() -> PyObject* {
        GraphState& s = state_of(self);
        const Busy busy(s);
        const Node& c = node_of(s, which);
        const float* found = s.graph.gradient_of((int32_t)integer(which));
        if (!found) Py_RETURN_NONE;
        return PyBytes_FromStringAndSize((const char*)found,
                                         4L * c.lanes * s.graph.uses[c.use].program->size);
    });
}
// [(how many steps, nodes)] of the components that were computed, in order.
PyObject* components(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        GraphState& s = state_of(self);
        const Busy busy(s);
        const Graph& g = s.graph;
        Ref found = owned(PyList_New(0));
        for (size_t k = 0; k < g.groups.size();) {
            const int32_t here = g.groups[k].component;
            std::unordered_map<int32_t, long> times;  // by fused op
            long steps = 0;
            Ref nodes = owned(PyList_New(0));
            for (; k < g.groups.size() && g.groups[k].component == here; k++) {
                const Group& x = g.groups[k];
                steps = std::max(steps, ++times[x.use]);
                for (int32_t i = 0; i < x.count; i++) {
                    if (g.order[x.first + i] == DEAD) continue;
                    if (PyList_Append(nodes.get(), owned(PyLong_FromLong(g.order[x.first + i])).get()))
                        throw Failed();
                }
            }
            Ref entry = owned(Py_BuildValue("(lO)", steps, nodes.get()));
            if (PyList_GET_SIZE(nodes.get()) && PyList_Append(found.get(), entry.get())) throw Failed();
        }
        return found.release();
    });
}
// [(fused op, groups, rows, seconds)] since the last call, of those that ran.
PyObject* times(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        GraphState& s = state_of(self);
        const Busy busy(s);
        Ref found = owned(PyList_New(0));
        for (Use& u : s.graph.uses) {
            if (u.number < 0 || !(u.groups || u.seconds)) continue;
            Ref entry =
                owned(Py_BuildValue("(iLLd)", u.number, (long long)u.groups, (long long)u.rows, u.seconds));
            if (PyList_Append(found.get(), entry.get())) throw Failed();
            u.groups = u.rows = 0, u.seconds = 0;
        }
        return found.release();
    });
}
// How many words the instructions have written, and what moved or cleared rows.
PyObject* written(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        GraphState& s = state_of(self);
        const Busy busy(s);
        return PyFloat_FromDouble(s.graph.written());
    });
}
PyObject* memory(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        GraphState& s = state_of(self);
        const Busy busy(s);
        return PyLong_FromSize_t(s.graph.memory());
    });
}
PyObject* cut(PyObject* self, PyObject* count) {
    return guarded([&]() -> PyObject* {
        const int32_t n = word(count);
        if (n < 0) fail(PyExc_ValueError, "less than no nodes");
        GraphState& s = state_of(self);
        const Busy busy(s);
        s.graph.cut(n);
        Py_RETURN_NONE;
    });
}

// A node to go back from, which is one number where its gradient is not given.
Graph::Root root_of(const Graph& g, PyObject* number, PyObject* gradient) {
    const long n = integer(number);
    if (n < 0 || n >= (long)g.nodes.size() || g.nodes[n].external) fail(PyExc_IndexError, "no such node");
    Graph::Root root{(int32_t)n, gradient ? copied<float>(gradient) : std::vector<float>(1, 1.f)};
    if (root.gradient.size() != (size_t)g.nodes[n].lanes * g.uses[g.nodes[n].use].program->size)
        fail(PyExc_ValueError, "the root is not one number, or its gradient has another size");
    return root;
}

// Which uses that read weights, or rows of tables, have nodes up to one of the user's.
std::vector<bool> weighted_up_to(const Graph& g, long index) {
    std::vector<bool> met(g.uses.size());
    for (const Node& c : g.nodes)
        if (c.use >= 0 && g.uses[c.use].program->weighted && c.index <= index) met[c.use] = true;
    return met;
}
struct Touched {
    Ref ids, gradients;  // bytes
};
// Rows of a table that a use has looked up, for nodes up to one of the user's, and their gradients.
Touched touched_rows(Graph& g, size_t use, long index) {
    std::vector<int32_t> ids;
    std::vector<float> values;
    const size_t size = g.uses[use].program->size;
    for (const Node& c : g.nodes) {
        if (c.use != (int32_t)use || c.index > index) continue;
        ids.insert(ids.end(), g.words.begin() + c.data, g.words.begin() + c.data + c.lanes);
        const float* found = g.gradient_of((int32_t)(&c - g.nodes.data()));
        if (found)
            values.insert(values.end(), found, found + c.lanes * size);
        else
            values.resize(values.size() + c.lanes * size, 0.f);
    }
    return {owned(PyBytes_FromStringAndSize((const char*)ids.data(), 4 * (Py_ssize_t)ids.size())),
            owned(PyBytes_FromStringAndSize((const char*)values.data(), 4 * (Py_ssize_t)values.size()))};
}

// (root, index of its node, full, new) -> (fused ops up to it, [(table, ids, gradients)]).
// The root is the number of a node, or a list of (number, gradient) of several.
// `new(kind)` gives an array of zeros to which the gradient of a weight is added.
PyObject* backward(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        GraphState& s = state_of(self);
        const Busy busy(s);
        long index;
        int full;
        PyObject *root, *make;
        if (!PyArg_ParseTuple(args, "OlpO", &root, &index, &full, &make)) throw Failed();
        Graph& g = s.graph;
        std::vector<Graph::Root> roots;
        if (PyList_Check(root)) {
            for (Py_ssize_t k = 0; k < PyList_GET_SIZE(root); k++) {
                PyObject *number, *gradient;
                const Ref pair = item(root, k);
                if (!PyTuple_Check(pair.get())) fail(PyExc_TypeError, "a root is no pair");
                if (!PyArg_ParseTuple(pair.get(), "OO", &number, &gradient)) throw Failed();
                roots.push_back(root_of(g, number, gradient));
            }
        } else {
            roots.push_back(root_of(g, root, nullptr));
        }
        std::unordered_map<int32_t, float*> by_kind;
        std::vector<View> kept;
        std::vector<std::vector<float*>> gradients(g.uses.size());
        for (size_t n = 0; n < g.uses.size(); n++) {
            const Program& p = *g.uses[n].program;
            if (p.form != Form::MAP) continue;
            if (!p.differentiable) fail(PyExc_RuntimeError, "a fused op has no derivative");
            for (size_t k = 0; k < p.weights.size(); k++) {
                auto at = by_kind.find(p.weights[k]);
                if (at == by_kind.end()) {
                    Ref kind = owned(PyLong_FromLong(p.weights[k]));
                    Ref array = owned(PyObject_CallOneArg(make, kind.get()));
                    kept.emplace_back(array.get(), PyBUF_CONTIG);
                    if ((int64_t)kept.back().words() < p.weight_sizes[k])
                        fail(PyExc_ValueError, "a gradient is too small");
                    at = by_kind.emplace(p.weights[k], kept.back().as<float>()).first;
                }
                gradients[n].push_back(at->second);
            }
        }
        {
            const Released released;
            g.backward(roots, full, gradients);
        }
        Ref ops = owned(PyList_New(0)), tables = owned(PyList_New(0));
        const std::vector<bool> met = weighted_up_to(g, index);
        for (size_t n = 0; n < g.uses.size(); n++) {
            if (!met[n]) continue;
            const Use& u = g.uses[n];
            Ref which = owned(PyLong_FromLong(u.number));
            if (PyList_Append(ops.get(), which.get())) throw Failed();
            if (u.program->form != Form::LOOKUP) continue;
            const Touched t = touched_rows(g, n, index);
            Ref entry = owned(Py_BuildValue("(iOO)", u.program->table, t.ids.get(), t.gradients.get()));
            if (PyList_Append(tables.get(), entry.get())) throw Failed();
        }
        return Py_BuildValue("(OO)", ops.get(), tables.get());
    });
}

// Where gradients go that no trainer asks for, or into an array for a storage.
struct Target {
    StorageObject* storage;  // null: nowhere
    std::vector<float> nowhere;
    Numbers array;
    Ref made;
    float* data() { return storage ? array.data() : nowhere.data(); }
};
bool is_array_of_its_own(PyObject* array, Numbers& to) {
    return array && Py_REFCNT(array) == 1 &&
           to.read(array, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE);
}
// An array of zeros: the one that the last update was done with, if nobody has it.
Target target_for(const Parameter& p, int64_t size) {
    Target t;
    t.storage = p.constant ? nullptr : (StorageObject*)p.storage.get();
    if (!t.storage) {
        t.nowhere.resize((size_t)size);
        return t;
    }
    t.made = Ref(std::exchange(t.storage->spare, nullptr));
    if (is_array_of_its_own(t.made.get(), t.array) && (int64_t)t.array.size() == size) {
        memset(t.array.data(), 0, 4 * (size_t)size);
        return t;
    }
    t.array = Numbers();
    t.made = owned(PyObject_CallMethodNoArgs(p.storage.get(), names.zeros));
    if (!t.array.read(t.made.get(), PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) ||
        (int64_t)t.array.size() != size)
        fail(PyExc_ValueError, "a gradient has another size");
    return t;
}
// Add what came to a target to the gradient of its storage.
void add_up(Target& t) {
    StorageObject* s = t.storage;
    Numbers sum;
    if (!s->gradient || s->gradient == Py_None) {
        t.array = Numbers();
        Py_XSETREF(s->gradient, t.made.release());
    } else if (is_array_of_its_own(s->gradient, sum) && sum.size() == t.array.size()) {
        float* to = sum.data();
        for (size_t k = 0; k < sum.size(); k++) to[k] += t.array.data()[k];
        t.array = Numbers();
        Py_XSETREF(s->spare, t.made.release());
    } else {
        Ref total = owned(PyNumber_Add(s->gradient, t.made.get()));
        Py_XSETREF(s->gradient, total.release());
    }
}

// Whether all weights are parameters, and all rows those of tables, whose storages are known.
bool are_plain(const Graph& g, const StoredObject* stored) {
    for (const Use& u : g.uses) {
        const Program& p = *u.program;
        if (p.form == Form::LOOKUP && p.weighted && !stored->tables->count(p.table)) return false;
        if (p.form != Form::MAP) continue;
        if (!p.differentiable) return false;
        for (const int32_t kind : p.weights) {
            const auto at = stored->parameters->find(kind);
            if (at == stored->parameters->end() || !has_array(at->second.storage.get())) return false;
        }
    }
    return true;
}

// Add the gradients of a node of one number to storages; false, and nothing was done, where that fails.
class Backward {
public:
    Backward(GraphState& s, const StoredObject* stored, int32_t node, int32_t index)
        : busy_(s), g_(s.graph), stored_(stored), node_(node), index_(index) {}
    bool run() {
        try {
            compute();
        } catch (const std::bad_alloc&) {
            return false;
        } catch (const Failed&) {
            if (!PyErr_ExceptionMatches(PyExc_Exception)) throw;
            PyErr_Clear();
            return false;
        }
        for (StorageObject* storage : reached_) storage->has_gradient = true;
        for (auto& [kind, target] : targets_)
            if (target.storage) add_up(target);
        for (const auto& [storage, rows] : rows_)
            owned(PyObject_CallMethodObjArgs(storage, names.add_rows, rows.ids.get(), rows.gradients.get(),
                                             nullptr));
        return true;
    }

private:
    const Busy busy_;
    Graph& g_;
    const StoredObject* stored_;
    int32_t node_, index_;
    std::unordered_map<int32_t, Target> targets_;
    std::vector<StorageObject*> reached_;
    std::vector<std::pair<PyObject*, Touched>> rows_;

    void compute() {
        std::vector<std::vector<float*>> gradients(g_.uses.size());
        for (size_t n = 0; n < g_.uses.size(); n++) {
            const Program& p = *g_.uses[n].program;
            if (p.form != Form::MAP) continue;
            for (size_t k = 0; k < p.weights.size(); k++) {
                const int32_t kind = p.weights[k];
                auto at = targets_.find(kind);
                if (at == targets_.end()) {
                    Target made = target_for(stored_->parameters->at(kind), p.weight_sizes[k]);
                    at = targets_.emplace(kind, std::move(made)).first;
                }
                gradients[n].push_back(at->second.data());
            }
        }
        {
            const Released released;
            g_.backward({Graph::Root{node_, {1.f}}}, false, gradients);
        }
        const std::vector<bool> met = weighted_up_to(g_, index_);
        for (size_t n = 0; n < g_.uses.size(); n++) {
            if (!met[n]) continue;
            const Program& p = *g_.uses[n].program;
            if (p.form == Form::LOOKUP)
                rows_.emplace_back(stored_->tables->at(p.table).get(), touched_rows(g_, n, index_));
            for (const int32_t kind : p.weights)
                if (StorageObject* x = targets_.at(kind).storage) reached_.push_back(x);
        }
    }
};

PyObject* count(PyObject* self, void*) { return PyLong_FromSize_t(state_of(self).graph.nodes.size()); }
PyObject* tables_of(PyObject* self, void*) { return Py_NewRef(state_of(self).tables.get()); }
int set_tables(PyObject* self, PyObject* tables, void*) {
    state_of(self).tables = Ref(Py_NewRef(tables ? tables : Py_None));
    return 0;
}
PyGetSetDef graph_attributes[] = {{"count", count, nullptr, "How many stored nodes it knows.", nullptr},
                                  {"tables", tables_of, set_tables, "What it asks in Python.", nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef graph_methods[] = {
    {"extend", extend, METH_VARARGS, "(stored nodes, start): compute the nodes from `start` on."},
    {"rows", rows, METH_O, "The rows of a node, as bytes of float32."},
    {"number", number_of, METH_O, "The first number of a node."},
    {"array", array, METH_VARARGS,
     "(number, to): write the rows of a node to an array of float64 in Fortran order, the batch last."},
    {"gradient", gradient, METH_O,
     "The rows of a node's gradient; None if the last backward did not reach it."},
    {"components", components, METH_NOARGS,
     "(steps, numbers of nodes) of each component that was computed, in order."},
    {"times", times, METH_NOARGS,
     "(fused op, groups, rows, seconds) of what ran since the last call; seconds if the graph is timed."},
    {"written", written, METH_NOARGS, "How many words were written so far, forward and back."},
    {"memory", memory, METH_NOARGS, "How many bytes its rows and gradients take."},
    {"cut", cut, METH_O, "Keep so many nodes."},
    {"backward", backward, METH_VARARGS,
     "(root, index, full, new): go back from a node of one number, or from several whose gradients are "
     "given."},
    {nullptr, nullptr, 0, nullptr}};

PyMethodDef program_methods[] = {{"bound", bound, METH_O, "(weights): the same for other weights."},
                                 {nullptr, nullptr, 0, nullptr}};
PyType_Slot program_slots[] = {{Py_tp_new, (void*)new_program},
                               {Py_tp_dealloc, (void*)free_program},
                               {Py_tp_methods, program_methods},
                               {Py_tp_doc, (void*)"A fused op as byte code."},
                               {0, nullptr}};
PyType_Spec program_spec = {"dynetjax.engine.native.core.Program", sizeof(ProgramObject), 0,
                            Py_TPFLAGS_DEFAULT, program_slots};
PyType_Slot graph_slots[] = {{Py_tp_new, (void*)new_graph},
                             {Py_tp_dealloc, (void*)free_graph},
                             {Py_tp_traverse, (void*)traverse_graph},
                             {Py_tp_clear, (void*)clear_graph},
                             {Py_tp_methods, graph_methods},
                             {Py_tp_getset, graph_attributes},
                             {Py_tp_doc, (void*)"What one graph has computed."},
                             {0, nullptr}};
PyType_Spec graph_spec = {"dynetjax.engine.native.core.Graph", sizeof(GraphObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, graph_slots};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "core",
                      "Tier 0: byte code, run at once.",
                      -1,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

PyObject* make_module() {
    Ref m = owned(PyModule_Create(&module));
    struct {
        PyObject** to;
        const char* text;
    } interned[] = {{&names.program, "program"},   {&names.weight, "weight"},  {&names.lookup, "lookup"},
                    {&names.rows, "rows"},         {&names.draws, "draws"},    {&names.starts, "starts"},
                    {&names.seed, "seed"},         {&names.tables, "_tables"}, {&names.zeros, "_zeros"},
                    {&names.add_rows, "_add_rows"}};
    for (auto& x : interned) *x.to = owned(PyUnicode_InternFromString(x.text)).release();
    Ref program = owned(PyType_FromSpec(&program_spec)), graph = owned(PyType_FromSpec(&graph_spec));
    program_type = (PyTypeObject*)program.get();
    executor_type = (PyTypeObject*)Py_NewRef(graph.get());
    if (PyModule_AddObjectRef(m.get(), "Program", program.get()) ||
        PyModule_AddObjectRef(m.get(), "Graph", graph.get()))
        throw Failed();
    program.release();  // the module has it for good
    static const struct {
        const char *name, *meaning;
    } table[] = {
#define X(name, meaning) {#name, meaning},
        DYNETJAX_UNARY(X) DYNETJAX_BINARY(X) DYNETJAX_TERNARY(X) DYNETJAX_REDUCTION(X) DYNETJAX_SCAN(X)
            DYNETJAX_OTHER(X)
#undef X
    };
    Ref opcodes = owned(PyDict_New()), meanings = owned(PyDict_New()), counts = owned(PyDict_New());
    for (int k = 0; k < OPCODES; k++) {
        const auto tell = [&](const Ref& of, const Ref& what) {
            if (PyDict_SetItemString(of.get(), table[k].name, what.get())) throw Failed();
        };
        tell(opcodes, owned(PyLong_FromLong(k)));
        tell(counts, owned(PyLong_FromLong(operands(k))));
        tell(meanings, owned(PyUnicode_FromString(table[k].meaning)));
    }
    const auto add = [&](const char* name, const Ref& what) {
        if (PyModule_AddObjectRef(m.get(), name, what.get())) throw Failed();
    };
    add("OPCODES", opcodes), add("OPERANDS", counts), add("MEANINGS", meanings);
    if (PyModule_AddStringConstant(m.get(), "LEVEL", kernels().level)) throw Failed();
    add_updates(m.get());
    add_planner(m.get());
    add_stored(m.get());
    add_structures(m.get());
    add_storages(m.get());
    add_expressions(m.get());
    add_nodes(m.get());
    add_functions(m.get());
    return m.release();
}

}  // namespace

const std::shared_ptr<const Program>& program_in(PyObject* p) {
    if (!PyObject_TypeCheck(p, program_type)) fail(PyExc_TypeError, "no Program");
    return *((ProgramObject*)p)->program;
}

void check_executor(PyObject* p) {
    if (!PyObject_TypeCheck(p, executor_type)) fail(PyExc_TypeError, "no Graph");
}
int32_t executed(PyObject* executor) { return (int32_t)state_of(executor).graph.nodes.size(); }
bool execute(PyObject* executor, const StoredObject* stored, PyObject* graph) {
    GraphState& s = state_of(executor);
    s.whose = graph;
    struct Asked {
        PyObject*& graph;
        ~Asked() { graph = nullptr; }
    } const asked{s.whose};
    return extend_by(s, stored, executed(executor)) == DONE;
}
bool go_back(PyObject* executor, const StoredObject* stored, int32_t node, int32_t index) {
    GraphState& s = state_of(executor);
    if (!are_plain(s.graph, stored)) return false;
    return Backward(s, stored, node, index).run();
}
double first_number(PyObject* executor, int32_t node) {
    GraphState& s = state_of(executor);
    const Busy busy(s);
    const Node& c = s.graph.nodes[(size_t)node];
    if (!c.value) fail(PyExc_IndexError, "no such node");
    return *c.value;
}
bool is_finite(PyObject* executor, int32_t node) {
    GraphState& s = state_of(executor);
    const Busy busy(s);
    const Node& c = s.graph.nodes[(size_t)node];
    if (!c.value) fail(PyExc_IndexError, "no such node");
    const size_t count = (size_t)c.lanes * s.graph.uses[c.use].program->size;
    for (size_t k = 0; k < count; k++)
        if (!std::isfinite(c.value[k])) return false;
    return true;
}
size_t taken(PyObject* executor) { return state_of(executor).graph.memory(); }

PyMODINIT_FUNC PyInit_core() {
    return guarded([] { return make_module(); });
}
