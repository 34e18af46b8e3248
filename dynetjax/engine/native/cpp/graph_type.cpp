// A graph's nodes for Python: `Nodes`.
#include "graph_type.h"

#include <utility>

#include "executor_type.h"

PyTypeObject* nodes_type;

namespace {

thread_local NodesObject* current;  // this thread's; Python keeps it
PyObject* make_current;             // Python's function that makes it

GraphData& data_in(PyObject* self) {
    GraphData* g = ((NodesObject*)self)->data;
    if (!g) fail(PyExc_ValueError, "the graph was renewed");
    return *g;
}

// Making nodes -------------------------------------------------------------------------

void append_field(std::vector<int32_t>& to, char letter, PyObject* x, int32_t lanes) {
    const bool several = PyList_Check(x);
    if (several && PyList_GET_SIZE(x) != lanes) fail(PyExc_ValueError, "runtime data for another batch");
    for (int32_t l = 0; l < lanes; l++) {
        const Ref one = several ? item(x, l) : Ref(Py_NewRef(x));
        int32_t bits;
        if (letter == 'i') {
            bits = word(one.get());
        } else {
            const float value = (float)number(one.get());
            memcpy(&bits, &value, 4);
        }
        to.push_back(bits);
    }
}

struct Words {
    std::vector<int32_t> words;
    bool several = false;  // there is a list of some
};
// Runtime data of a node, where a random key has 0.
Words data_from(const Signature& s, PyObject* data, int32_t lanes) {
    Words found;
    if (s.form == Form::REDUCE || s.form == Form::GATHER) {
        if (data != Py_None) found = {words_in(data), true};
        return found;
    }
    Py_ssize_t field = 0;
    for (const char letter : s.letters) {
        if (letter == 'k') {
            found.words.push_back(0);
            continue;
        }
        const bool one = !PyTuple_Check(data);
        if (data == Py_None || field >= (one ? 1 : PyTuple_GET_SIZE(data)))
            fail(PyExc_ValueError, "runtime data is missing");
        PyObject* x = one ? data : PyTuple_GET_ITEM(data, field);
        found.several = found.several || PyList_Check(x);
        append_field(found.words, letter, x, lanes);
        field++;
    }
    return found;
}
// Let random keys be those of a node of this number.
void write_key(int32_t* words, const Signature& s, int32_t lanes, int32_t user) {
    for (const char letter : s.letters) {
        if (letter == 'k') *words = user;
        words += letter == 'k' ? 1 : lanes;
    }
}

void append_operands(GraphData& g, PyObject* self, PyObject* given) {
    if (!PyTuple_Check(given)) fail(PyExc_TypeError, "operands are no tuple");
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(given); k++) {
        PyObject* x = PyTuple_GET_ITEM(given, k);
        if (!is_expression(x) || (is_leaf(x) && !is_parameter(x)))
            fail(PyExc_TypeError, "an operand is no Expression");
        if (is_leaf(x)) {
            g.nodes.operands.push_back(g.ref_of(x));
        } else {
            if ((PyObject*)((ExpressionObject*)x)->graph != self || !data_of(x))
                fail(PyExc_ValueError, "an operand is of another graph");
            g.nodes.operands.push_back(((ExpressionObject*)x)->index);
        }
    }
}

struct About {  // a node, as Python tells it
    PyObject *signature, *operands, *data = Py_None, *lengths = nullptr, *parts = Py_None;
    int lanes, is_part = 0;
};
// What Python has to convert comes first: it may run anything.
PyObject* append_node(PyObject* self, const About& x) {
    const Held held((NodesObject*)self);
    GraphData& g = held.data();
    Nodes& nodes = g.nodes;
    MadeNode c{};
    c.signature = signature_of(g.known(), x.signature);
    const Signature s = g.known().structures.signatures[(size_t)c.signature];
    if (x.lanes < (s.is_weight ? 0 : 1)) fail(PyExc_ValueError, "a node without rows");
    const Words data = s.form == Form::INPUT ? Words() : data_from(s, x.data, x.lanes);
    const std::vector<int32_t> lengths =
        s.ragged && x.lengths ? words_in(x.lengths) : std::vector<int32_t>();
    if ((int32_t)lengths.size() != s.ragged) fail(PyExc_ValueError, "lengths of other axes");
    held.check();
    const size_t start = nodes.operands.size(), count = nodes.made.size();
    const Py_ssize_t arrays = PyList_GET_SIZE(g.given());
    try {
        append_operands(g, self, x.operands);
        c.first = c.shown = (int32_t)start;
        c.shown_count = c.count = (int32_t)(nodes.operands.size() - start);
        if (x.parts != Py_None) {
            c.first = (int32_t)nodes.operands.size();
            append_operands(g, self, x.parts);
            c.count = (int32_t)nodes.operands.size() - c.first;
        }
        if (s.form == Form::MAP && s.weights.size() != (size_t)c.count)
            fail(PyExc_ValueError, "a node of another number of operands");
        c.lanes = s.is_weight ? 0 : x.lanes;
        c.is_zeros = s.zeros;
        c.is_part = x.is_part || s.zeros;
        c.given = s.form == Form::INPUT && !s.zeros ? narrow(arrays) : -1;
        if (c.given >= 0) push(g.given(), x.data);
        c.data = (int32_t)nodes.data.size();
        c.words = (int32_t)data.words.size();
        c.is_several = data.several;
        nodes.data.insert(nodes.data.end(), data.words.begin(), data.words.end());
        write_key(nodes.data.data() + c.data, s, x.lanes, (int32_t)nodes.of_user.size());
        c.lengths = (int32_t)nodes.lengths.size();
        nodes.lengths.insert(nodes.lengths.end(), lengths.begin(), lengths.end());
        return owned(new_expression((NodesObject*)self, nodes.add(c))).release();
    } catch (...) {
        nodes.drop(count);
        nodes.operands.resize(start);
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        if (PyList_SetSlice(g.given(), arrays, PyList_GET_SIZE(g.given()), nullptr)) PyErr_Clear();
        PyErr_Restore(kind, value, trace);
        throw;
    }
}

// (signature, operands, lanes, data, lengths, parts, is_part): add a node, which reads `parts`, if
// these are not None, instead of its operands. It is there even if Python, which is told of it, raises.
PyObject* append(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        About x;
        if (!PyArg_ParseTuple(args, "OOi|OOOp", &x.signature, &x.operands, &x.lanes, &x.data, &x.lengths,
                              &x.parts, &x.is_part))
            throw Failed();
        Ref made = owned(append_node(self, x));
        GraphData* g = data_of(made.get());
        const MadeNode& c = g->nodes.made.back();
        if (g->watched && !c.is_part) tell_of((NodesObject*)self, (size_t)c.index);
        return made.release();
    });
}

// Rows ---------------------------------------------------------------------------------

// The number of one of the user's nodes.
int32_t user_node(GraphData& g, long n) {
    if (n < 0 || n >= (long)g.nodes.of_user.size()) fail(PyExc_IndexError, "no such node");
    return g.nodes.of_user[(size_t)n];
}
int32_t user_node(GraphData& g, PyObject* index) { return user_node(g, integer(index)); }
// Store what needs rows, or is asked for. Stored nodes have the numbers of structures first, and then those
// of fused ops.
void store_nodes(GraphData& g, const std::vector<int32_t>& asked) {
    const size_t start = (size_t)g.stored_nodes().size();
    try {
        g.nodes.store(asked);
        std::vector<StoredNode>& stored = g.stored_nodes().nodes;
        for (size_t n = start; n < stored.size(); n++) fused_op_of(g.known(), stored[n].fused);
        for (size_t n = start; n < stored.size(); n++)
            stored[n].fused = g.known().structures.known[(size_t)stored[n].fused].fused;
    } catch (...) {
        g.nodes.unstore();
        throw;
    }
}
// (asked): store what needs rows of all that is new, and nodes that are asked for.
PyObject* store(PyObject* self, PyObject* asked) {
    return guarded([&]() -> PyObject* {
        const Busy busy((NodesObject*)self);
        GraphData& g = busy.data();
        std::vector<int32_t> wanted;
        for (int32_t index : words_in(asked)) wanted.push_back(user_node(g, index));
        store_nodes(g, wanted);
        busy.check();
        Py_RETURN_NONE;
    });
}
// The number of a stored node; -1 where it has none.
PyObject* at(PyObject* self, PyObject* index) {
    return guarded([&]() -> PyObject* {
        GraphData& g = data_in(self);
        const int32_t n = user_node(g, index);
        return PyLong_FromLong(n >= g.nodes.known() ? NO_ROWS : g.nodes.at(n));
    });
}
PyObject* has_gradient(PyObject* self, PyObject* index) {
    return guarded([&]() -> PyObject* {
        GraphData& g = data_in(self);
        const int32_t n = user_node(g, index);
        if (n >= g.nodes.known() || g.nodes.at(n) == NO_ROWS) Py_RETURN_FALSE;
        return PyBool_FromLong(g.nodes.is_held(n) || !(g.nodes.sums(n) || g.nodes.is_late(n)));
    });
}
PyObject* hold(PyObject* self, PyObject* index) {
    return guarded([&]() -> PyObject* {
        const Busy busy((NodesObject*)self);
        GraphData& g = busy.data();
        g.nodes.hold(user_node(g, index));
        g.executor = Ref();  // all is stored anew
        Py_RETURN_NONE;
    });
}
PyObject* start_anew(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        const Busy busy((NodesObject*)self);
        GraphData& g = busy.data();
        g.start_anew();
        Py_RETURN_NONE;
    });
}
// (index, data): let a node have other data; what is stored may have to be anew.
PyObject* set_data(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *index, *data;
        if (!PyArg_ParseTuple(args, "OO", &index, &data)) throw Failed();
        const Busy busy((NodesObject*)self);
        GraphData& g = busy.data();
        const size_t n = (size_t)user_node(g, index);
        MadeNode c = g.nodes.made[n];
        const Signature s = g.known().structures.signatures[(size_t)c.signature];
        if (c.given >= 0) {
            g.executor = Ref();
            if (PyList_SetItem(g.given(), c.given, Py_NewRef(data))) throw Failed();
            Py_RETURN_NONE;
        }
        const Words given = data_from(s, data, c.lanes);
        if (given.words.size() != (size_t)c.words) fail(PyExc_ValueError, "runtime data of another size");
        busy.check();
        std::copy(given.words.begin(), given.words.end(), g.nodes.data.begin() + c.data);
        write_key(g.nodes.data.data() + c.data, s, c.lanes, c.index);
        g.nodes.made[n].is_several = given.several;
        g.start_anew();
        Py_RETURN_NONE;
    });
}
// (count): keep so many of the user's nodes.
PyObject* cut(PyObject* self, PyObject* count) {
    return guarded([&]() -> PyObject* {
        const int32_t users = word(count);
        if (users < 0) fail(PyExc_ValueError, "less than no nodes");
        const Busy busy((NodesObject*)self);
        GraphData& g = busy.data();
        if (users >= (int32_t)g.nodes.of_user.size()) Py_RETURN_NONE;
        const size_t kept = users ? (size_t)g.nodes.of_user[(size_t)users - 1] + 1 : 0;
        Py_ssize_t arrays = PyList_GET_SIZE(g.given());
        for (size_t n = kept; n < g.nodes.made.size(); n++)
            if (g.nodes.made[n].given >= 0) arrays = std::min(arrays, (Py_ssize_t)g.nodes.made[n].given);
        g.nodes.cut(users);
        if (g.root >= (int32_t)g.nodes.made.size()) g.root = -1;
        if (PyList_SetSlice(g.given(), arrays, PyList_GET_SIZE(g.given()), nullptr)) throw Failed();
        Py_RETURN_NONE;
    });
}

// Reading ------------------------------------------------------------------------------

PyObject *note_computed, *before_read, *make_executor;  // Python's functions

// (executor or None, nodes, bytes): what computes the graph from now on without Python, up to so many.
PyObject* use_executor(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* executor;
        unsigned long long nodes = 0, bytes = 0;
        if (!PyArg_ParseTuple(args, "O|KK", &executor, &nodes, &bytes)) throw Failed();
        GraphData& g = data_in(self);
        if (executor == Py_None) {
            g.executor = Ref();
            g.root = -1;
        } else {
            check_executor(executor);
            g.executor = Ref(Py_NewRef(executor));
            g.most_nodes = nodes;
            g.most_bytes = bytes;
        }
        Py_RETURN_NONE;
    });
}
// (note, before, make): what is called with a graph after a run of it, before a number is handed out,
// and to give a graph of which nothing was computed an executor, if it is for that.
PyObject* use_reader(PyObject*, PyObject* args) {
    PyObject *note, *before, *make;
    if (!PyArg_ParseTuple(args, "OOO", &note, &before, &make)) return nullptr;
    Py_XSETREF(make_executor, Py_NewRef(make));
    Py_XSETREF(note_computed, Py_NewRef(note));
    Py_XSETREF(before_read, Py_NewRef(before));
    Py_RETURN_NONE;
}
PyObject* computed_at(PyObject* self, PyObject* index) {
    return guarded([&]() -> PyObject* {
        GraphData& g = data_in(self);
        const int32_t at = computed((NodesObject*)self, user_node(g, index));
        if (at >= 0) before_reading();
        return PyLong_FromLong(at);
    });
}

// What others look at ------------------------------------------------------------------

Py_ssize_t count_nodes(PyObject* self) {
    GraphData* g = ((NodesObject*)self)->data;
    return g ? (Py_ssize_t)g->nodes.of_user.size() : 0;
}
PyObject* node(PyObject* self, PyObject* index) {
    return guarded([&]() -> PyObject* {
        GraphData& g = data_in(self);
        return new_expression((NodesObject*)self, user_node(g, index));
    });
}
// [signature] of nodes that are weights, up to one of the user's.
PyObject* weights_up_to(PyObject* self, PyObject* index) {
    return guarded([&]() -> PyObject* {
        const int32_t last = word(index);
        Ref found = owned(PyList_New(0));
        GraphData& g = data_in(self);
        for (const MadeNode& c : g.nodes.made) {
            if (c.index > last) break;
            if (!g.known().structures.signatures[(size_t)c.signature].is_weight) continue;
            push(found.get(), g.known().signatures[(size_t)c.signature].get());
        }
        return found.release();
    });
}
PyObject* leaves(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        Ref found = owned(PyList_New(0));
        GraphData& g = data_in(self);
        for (const Ref& leaf : g.leaves) push(found.get(), leaf.get());
        return found.release();
    });
}
PyObject* stored(PyObject* self, void*) {
    return guarded([&] { return Py_NewRef(data_in(self).stored.get()); });
}
PyObject* executor_of(PyObject* self, void*) {
    GraphData* g = ((NodesObject*)self)->data;
    return Py_NewRef(g && g->executor.get() ? g->executor.get() : Py_None);
}
PyObject* root_of(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        const int32_t root = data_in(self).root;
        return root < 0 ? Py_NewRef(Py_None) : new_expression((NodesObject*)self, root);
    });
}
PyObject* forget_root(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        data_in(self).root = -1;
        Py_RETURN_NONE;
    });
}
PyObject* arrays_of(PyObject* self, void*) {
    return guarded([&] { return Py_NewRef(data_in(self).arrays.get()); });
}
PyObject* live(PyObject* self, void*) { return PyBool_FromLong(((NodesObject*)self)->data != nullptr); }
PyObject* memory(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        Nodes& n = data_in(self).nodes;
        const size_t ints =
            n.operands.capacity() + n.data.capacity() + n.lengths.capacity() + n.of_user.capacity();
        return PyLong_FromSize_t(n.made.capacity() * sizeof(MadeNode) + 4 * ints);
    });
}

// Life ---------------------------------------------------------------------------------

// Free what nobody holds; the last holder frees the rest.
void let_go(GraphData* g) {
    if (g && g->holders)
        g->orphan = true;
    else
        delete g;
}
PyObject* new_nodes(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }
void free_nodes(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    if (current == (NodesObject*)self) current = nullptr;
    let_go(((NodesObject*)self)->data);
    type->tp_free(self);
    Py_DECREF(type);
}
// (structures, old, watched, immediate): have no nodes so far, and the room of an older graph, which is
// renewed.
PyObject* begin(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *structures, *old;
        int watched, immediate = 0;
        if (!PyArg_ParseTuple(args, "OOp|p", &structures, &old, &watched, &immediate)) throw Failed();
        structures_in(structures);
        GraphData*& data = ((NodesObject*)self)->data;
        if (data) fail(PyExc_ValueError, "the graph has nodes");
        std::unique_ptr<GraphData> room;
        if (old != Py_None) {
            if (!PyObject_TypeCheck(old, nodes_type)) fail(PyExc_TypeError, "no graph");
            room.reset(std::exchange(((NodesObject*)old)->data, nullptr));
            if (room && (room->holders || room->process.get() != structures)) let_go(room.release());
        }
        if (room) {
            room->nodes.clear();
            room->executor = Ref();
            room->forget_leaves();
            room->root = -1;
            if (PyList_SetSlice(room->given(), 0, PyList_GET_SIZE(room->given()), nullptr)) throw Failed();
        } else {
            room = std::make_unique<GraphData>(structures);
        }
        room->watched = watched;
        room->immediate = immediate;
        room->arrays = owned(PyDict_New());
        data = room.release();
        Py_RETURN_NONE;
    });
}
// (leaf): have it live as long as its rows are read here.
PyObject* keep(PyObject* self, PyObject* leaf) {
    return guarded([&]() -> PyObject* {
        if (!is_parameter(leaf)) fail(PyExc_TypeError, "no parameter");
        data_in(self).ref_of(leaf);
        Py_RETURN_NONE;
    });
}
// What another call with the same operands would not have made so is made.
PyObject* unlike(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        data_in(self).unlike++;
        Py_RETURN_NONE;
    });
}
// (graph): nodes of this thread go there.
PyObject* use(PyObject*, PyObject* graph) {
    return guarded([&]() -> PyObject* {
        if (!PyObject_TypeCheck(graph, nodes_type)) fail(PyExc_TypeError, "no graph");
        current = (NodesObject*)graph;
        Py_RETURN_NONE;
    });
}
PyObject* use_maker(PyObject*, PyObject* make) {
    Py_XSETREF(make_current, Py_NewRef(make));
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"_begin", begin, METH_VARARGS,
     "(structures, old, watched, immediate=False): have no nodes, and the room of an old graph."},
    {"append", append, METH_VARARGS,
     "(signature, operands, lanes, data=None, lengths=(), parts=None, is_part=False): add a node."},
    {"keep", keep, METH_O, "Have a parameter or table live as long as the graph."},
    {"unlike", unlike, METH_NOARGS, "Say that another such call may make other nodes than this one."},
    {"store", store, METH_O,
     "(asked): store what needs rows of all that is new, and nodes by their numbers."},
    {"at", at, METH_O, "The number of a node of the user's among the stored nodes; -1 if it is none."},
    {"has_gradient", has_gradient, METH_O,
     "Whether a node has rows, and all that comes back to it comes there."},
    {"use_executor", use_executor, METH_VARARGS,
     "(executor or None, nodes, bytes): what computes it without Python, up to so many."},
    {"forget_root", forget_root, METH_NOARGS, "Have a `root` no longer."},
    {"computed", computed_at, METH_O,
     "The stored number of a node whose rows tier 0 has, or computes now; -1 if it is not for that."},
    {"hold", hold, METH_O, "Have a node stored from now on, when all is stored anew."},
    {"set_data", set_data, METH_VARARGS, "(index, data): let a node have other data."},
    {"start_anew", start_anew, METH_NOARGS, "Have no stored nodes any more."},
    {"cut", cut, METH_O, "Keep so many of the user's nodes, and what was stored before others."},
    {"node", node, METH_O, "The user's node of a number."},
    {"weights_up_to", weights_up_to, METH_O, "(index): signatures of weights that were made up to a node."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {
    {"stored", stored, nullptr, "Its `StoredNodes`.", nullptr},
    {"leaves", leaves, nullptr, "Parameters and tables that it reads.", nullptr},
    {"executor", executor_of, nullptr, "What computes it without Python; None if nothing does.", nullptr},
    {"root", root_of, nullptr, "Of the last backward, if that was without Python; else None.", nullptr},
    {"arrays", arrays_of, nullptr, "Weights on the host as they were when first read, by kind id.", nullptr},
    {"live", live, nullptr, "It was not renewed yet.", nullptr},
    {"room", memory, nullptr, "Bytes that its nodes take.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, (void*)new_nodes},
                       {Py_tp_dealloc, (void*)free_nodes},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, attributes},
                       {Py_sq_length, (void*)count_nodes},
                       {Py_tp_doc, (void*)"The nodes of a graph, and which have rows."},
                       {0, nullptr}};
PyType_Spec spec = {"dynetjax.engine.native.core.Nodes", sizeof(NodesObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
PyMethodDef functions[] = {{"use_graph", use, METH_O, "(graph): nodes of this thread go there."},
                           {"use_maker", use_maker, METH_O, "(make): what makes a thread's first graph."},
                           {"use_reader", use_reader, METH_VARARGS,
                            "(note, before, make): called after something was computed, before a read, "
                            "and to give a graph an executor."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

NodesObject* current_graph() {
    if (!current && make_current) Py_XDECREF(PyObject_CallNoArgs(make_current));
    if (!current && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "there is no graph");
    return current;
}

// Have an executor for a graph of which nothing was computed; false if Python is to decide.
bool begin_executor(NodesObject* graph) {
    if (!make_executor) return false;
    GraphData* g = graph->data;
    owned(PyObject_CallOneArg(make_executor, (PyObject*)graph));
    return graph->data == g && g->executor.get();
}

int32_t computed(NodesObject* graph, int32_t node) {
    GraphData& g = *graph->data;
    if (g.busy || (g.watched && !g.immediate)) return -1;
    const MadeNode& c = g.nodes.made[(size_t)node];
    if (c.is_zeros || !c.lanes) return -1;
    int32_t at = node < g.nodes.known() ? g.nodes.at(node) : NO_ROWS;
    if (at >= 0 && g.executor.get() && at < executed(g.executor.get())) return at;
    if (!g.executor.get() && !begin_executor(graph)) return -1;
    const Ref executor(Py_NewRef(g.executor.get()));
    if (g.nodes.of_user.size() > g.most_nodes || taken(executor.get()) > g.most_bytes) return -1;
    try {
        const Busy busy(graph);
        store_nodes(g, {node});
        const bool done = execute(executor.get(), (StoredObject*)g.stored.get(), (PyObject*)graph);
        busy.check();
        if (!done) return -1;
        at = g.nodes.at(node);
    } catch (const Failed&) {  // Python does it again, and words what is wrong
        if (!PyErr_ExceptionMatches(PyExc_Exception)) throw;
        PyErr_Clear();
        return -1;
    }
    if (note_computed) owned(PyObject_CallOneArg(note_computed, (PyObject*)graph));
    return at;
}
bool went_back(NodesObject* graph, int32_t node) {
    const Held held(graph);
    GraphData& g = held.data();
    const int32_t at = computed(graph, node);
    held.check();
    if (at < 0) return false;
    const int32_t index = g.nodes.made[(size_t)node].index;
    for (int32_t n = 0; n <= node; n++)
        if (g.known().structures.signatures[(size_t)g.nodes.made[(size_t)n].signature].is_weight)
            return false;
    const Ref executor(Py_NewRef(g.executor.get()));
    {
        const Busy busy(graph);
        if (!go_back(executor.get(), (StoredObject*)g.stored.get(), at, index)) return false;
    }
    held.check();
    g.root = node;
    if (note_computed) owned(PyObject_CallOneArg(note_computed, (PyObject*)graph));
    return true;
}
void before_reading() {
    if (before_read) owned(PyObject_CallNoArgs(before_read));
}

// Compute the user's nodes from number `first` on; whether all were, and to numbers that are finite.
bool compute_at_once(NodesObject* graph, size_t first) {
    const Held held(graph);
    const GraphData& g = held.data();
    for (size_t n = first; n < g.nodes.of_user.size(); n++) {
        const int32_t at = computed(graph, g.nodes.of_user[n]);
        held.check();
        if (at < 0 || !g.executor.get() || !is_finite(g.executor.get(), at)) return false;
    }
    before_reading();
    return true;
}

void tell_of(NodesObject* graph, size_t first) {
    if (graph->data && graph->data->immediate && compute_at_once(graph, first)) return;
    const Ref number = owned(PyLong_FromSize_t(first));
    called((PyObject*)graph, "_made", number.get());
}

void add_nodes(PyObject* module) {
    nodes_type = add_type(module, "Nodes", spec);
    if (PyModule_AddFunctions(module, functions)) throw Failed();
}
