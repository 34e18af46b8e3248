// Expressions for Python: `Expression`, `Leaf`, `Table`.
#include <utility>

#include "executor_type.h"
#include "graph_type.h"

// After Python.h:
#include <structmember.h>

PyTypeObject *expression_type, *leaf_type;

namespace {

PyTypeObject* table_type;
struct Names {
    PyObject *item, *value, *backward;
} names;

// Nodes that were freed, to be made again. Only exact expressions, which have no more than this.
ExpressionObject* free_expressions;
int free_count;
constexpr int MOST_FREE = 1 << 15;

void free_expression(PyObject* self) {
    ExpressionObject* e = (ExpressionObject*)self;
    PyTypeObject* type = Py_TYPE(self);
    Py_XDECREF(e->graph);
    if (type == expression_type && free_count < MOST_FREE) {
        e->graph = (NodesObject*)free_expressions;
        free_expressions = e;
        free_count++;
    } else {
        type->tp_free(self);
    }
    Py_DECREF(type);
}
void free_leaf(PyObject* self) {
    Py_XDECREF(((LeafObject*)self)->storage);
    Py_XDECREF(((LeafObject*)self)->signature);
    free_expression(self);
}
void free_table(PyObject* self) {
    Py_XDECREF(((TableObject*)self)->row_signature);
    free_leaf(self);
}

Py_hash_t hash_of(PyObject* self) {
    const ExpressionObject* e = (ExpressionObject*)self;
    if (!e->graph) return (Py_hash_t)((uintptr_t)self >> 4);
    const uint64_t h =
        ((uintptr_t)e->graph >> 4) * 0x9E3779B97F4A7C15ull + (uint64_t)e->index * 0xD6E8FEB86659FD93ull;
    return (Py_hash_t)(h >> 1);
}
// What nodes are asked for, where a stale one is a mistake of the caller.
const MadeNode& node_of(PyObject* self) {
    GraphData* g = data_of(self);
    if (!g) fail(PyExc_RuntimeError, "the expression is stale");
    return g->nodes.made[(size_t)((ExpressionObject*)self)->index];
}
PyObject* graph_of(PyObject* self, void*) {
    PyObject* graph = (PyObject*)((ExpressionObject*)self)->graph;
    return Py_NewRef(graph ? graph : Py_None);
}
PyObject* is_live(PyObject* self, void*) { return PyBool_FromLong(is_leaf(self) || data_of(self)); }
PyObject* index_of(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        if (is_leaf(self)) return PyLong_FromLong(-1);
        return PyLong_FromLong(node_of(self).index);
    });
}
PyObject* is_part(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        if (is_leaf(self)) Py_RETURN_FALSE;
        const MadeNode& c = node_of(self);
        return PyBool_FromLong(c.is_part || c.is_zeros);
    });
}
PyObject* lanes_of(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        if (is_leaf(self)) return PyLong_FromLong(0);
        GraphData* g = data_of(self);
        const MadeNode& c = node_of(self);
        // a weight may have got rows of its own, which is nothing that the user sees
        const bool weight = g->known().structures.signatures[(size_t)c.signature].is_weight;
        return PyLong_FromLong(weight ? 0 : c.lanes);
    });
}
PyObject* signature_of_node(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        if (is_leaf(self)) {
            if (!is_parameter(self)) fail(PyExc_AttributeError, "signature");
            return Py_NewRef(((LeafObject*)self)->signature);
        }
        GraphData* g = data_of(self);
        return Py_NewRef(g ? g->known().signatures[(size_t)node_of(self).signature].get()
                           : (node_of(self), nullptr));
    });
}
PyObject* expressions(PyObject* self, int32_t first, int32_t count) {
    Ref found = owned(PyTuple_New(count));
    GraphData* g = data_of(self);  // and not before: the collector may run anything
    if (!g) fail(PyExc_RuntimeError, "the expression is stale");
    for (int32_t k = 0; k < count; k++) {
        const int32_t ref = g->nodes.operands[(size_t)(first + k)];
        PyObject* x = ref >= 0 ? new_expression(((ExpressionObject*)self)->graph, ref)
                               : Py_NewRef(g->leaves[(size_t)leaf_of(ref)].get());
        PyTuple_SET_ITEM(found.get(), k, owned(x).release());
    }
    return found.release();
}
PyObject* operands_of(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        if (is_leaf(self)) return PyTuple_New(0);
        const MadeNode& c = node_of(self);
        return expressions(self, c.shown, c.shown_count);
    });
}
PyObject* parts_of(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        if (is_leaf(self)) return PyTuple_New(0);
        const MadeNode& c = node_of(self);
        return expressions(self, c.first, c.count);
    });
}
PyObject* tuple_of(const std::vector<int32_t>& several) {
    Ref found = owned(PyTuple_New((Py_ssize_t)several.size()));
    for (size_t k = 0; k < several.size(); k++)
        PyTuple_SET_ITEM(found.get(), (Py_ssize_t)k, owned(PyLong_FromLong(several[k])).release());
    return found.release();
}
PyObject* lengths_of(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        if (is_leaf(self)) return PyTuple_New(0);
        GraphData* g = data_of(self);
        const MadeNode& c = node_of(self);
        const size_t count = (size_t)g->known().structures.signatures[(size_t)c.signature].ragged;
        const auto first = g->nodes.lengths.begin() + c.lengths;
        return tuple_of(std::vector<int32_t>(first, first + count));
    });
}
// Numbers of each lane, as a list if there are several.
PyObject* field_of(const int32_t* words, int32_t lanes, bool several, char letter) {
    const auto one = [&](int32_t bits) {
        float value;
        memcpy(&value, &bits, 4);
        return owned(letter == 'f' ? PyFloat_FromDouble(value) : PyLong_FromLong(bits));
    };
    if (!several) return one(words[0]).release();
    Ref found = owned(PyList_New(lanes));
    for (int32_t k = 0; k < lanes; k++) PyList_SET_ITEM(found.get(), k, one(words[k]).release());
    return found.release();
}
PyObject* data_of_node(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        if (is_leaf(self)) Py_RETURN_NONE;
        const MadeNode c = node_of(self);
        GraphData* g = data_of(self);
        const Signature s = g->signature(((ExpressionObject*)self)->index);
        if (c.given >= 0) return item(g->given(), c.given).release();
        if (!c.words) Py_RETURN_NONE;
        const auto first = g->nodes.data.begin() + c.data;
        const std::vector<int32_t> copies(first, first + c.words);
        const int32_t* words = copies.data();
        if (s.form == Form::LOOKUP) return field_of(words, c.words, c.is_several, 'i');
        if (s.form != Form::MAP) return field_of(words, c.words, true, 'i');
        Ref fields = owned(PyList_New(0));
        for (const char letter : s.letters) {
            if (letter != 'k') {
                push(fields.get(), owned(field_of(words, c.lanes, c.is_several, letter)).get());
            }
            words += letter == 'k' ? 1 : c.lanes;
        }
        const Py_ssize_t count = PyList_GET_SIZE(fields.get());
        if (count == 1) return item(fields.get(), 0).release();
        if (!count) Py_RETURN_NONE;
        return PyList_AsTuple(fields.get());
    });
}

// The graph of a node that is one number; else null.
GraphData* graph_of_number(PyObject* self) {
    GraphData* g = is_leaf(self) ? nullptr : data_of(self);
    if (!g) return nullptr;
    const int32_t node = ((ExpressionObject*)self)->index;
    const Signature& s = g->signature(node);
    if (g->nodes.made[(size_t)node].lanes != 1 || s.is_weight || s.ragged) return nullptr;
    const std::vector<int32_t>* sizes = g->known().sizes_of(s.kind);
    return sizes && sizes->size() == 1 && sizes->front() == 1 ? g : nullptr;
}
// The number of a node that is one, and computed by tier 0; else None.
PyObject* one_number(PyObject* self) {
    GraphData* g = graph_of_number(self);
    if (!g) Py_RETURN_NONE;
    const int32_t node = ((ExpressionObject*)self)->index;
    const Ref graph(Py_NewRef((PyObject*)((ExpressionObject*)self)->graph));
    const int32_t at = computed((NodesObject*)graph.get(), node);
    if (at < 0) Py_RETURN_NONE;
    before_reading();
    if (((NodesObject*)graph.get())->data != g || !g->executor.get()) Py_RETURN_NONE;
    return PyFloat_FromDouble(first_number(g->executor.get(), at));
}
PyObject* number_at_hand(PyObject* self, PyObject*) {
    return guarded([&] { return one_number(self); });
}
PyObject* value(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    return guarded([&]() -> PyObject* {
        if (!nargs && !keywords) {
            Ref found = owned(one_number(self));
            if (found.get() != Py_None) return found.release();
        }
        const Ref slow = attribute(self, names.value);
        return PyObject_Vectorcall(slow.get(), args, (size_t)nargs, keywords);
    });
}
PyObject* backward(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
    return guarded([&]() -> PyObject* {
        GraphData* g = nargs || keywords ? nullptr : graph_of_number(self);
        if (g && went_back(((ExpressionObject*)self)->graph, ((ExpressionObject*)self)->index))
            Py_RETURN_NONE;
        const Ref slow = attribute(self, names.backward);
        return PyObject_Vectorcall(slow.get(), args, (size_t)nargs, keywords);
    });
}
PyMethodDef methods[] = {
    {"backward", (PyCFunction)(void (*)())backward, METH_FASTCALL | METH_KEYWORDS,
     "backward(full=False)\n--\n\n"
     "Add the gradient of this number to every parameter it was made from.\n\n"
     "With `full`, `gradient()` of constants is computed too.\n\n"
     "Raises:\n    ValueError: the expression, batch included, is not one number."},
    {"value", (PyCFunction)(void (*)())value, METH_FASTCALL | METH_KEYWORDS,
     "value(recalculate=False)\n--\n\nA float for one number, a flat list for vectors, else an array."},
    {"_number_at_hand", number_at_hand, METH_NOARGS,
     "The number of a node that is one, if tier 0 has it; or None."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {
    {"graph", graph_of, nullptr, "The graph that it belongs to; None for a parameter, which belongs to all.",
     nullptr},
    {"is_live", is_live, nullptr, "Its graph was not renewed, and it not cut.", nullptr},
    {"index", index_of, nullptr, "Its number among the user's nodes.", nullptr},
    {"is_part", is_part, nullptr, "It is a part of another node, and the user did not make it.", nullptr},
    {"lanes", lanes_of, nullptr, "Batch size; 0 for a weight, which has no rows.", nullptr},
    {"signature", signature_of_node, nullptr, "What it computes, by which kinds of operands.", nullptr},
    {"operands", operands_of, nullptr, "Expressions that it was made of.", nullptr},
    {"parts", parts_of, nullptr, "Expressions that it reads.", nullptr},
    {"lengths", lengths_of, nullptr, "True sizes of the axes that are ragged.", nullptr},
    {"data", data_of_node, nullptr, "Runtime data of its own.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
// Python's operators -------------------------------------------------------------------

// What they do: functions of two expressions, or of one and a number; and Python's own for the rest.
enum Operator {
    ADD,
    SUBTRACT,
    MULTIPLY,
    NEGATE,
    SHIFT,
    SCALE,
    PICK,
    PICK_RANGE,
    OTHER_ADD,
    OTHER_RADD,
    OTHER_SUB,
    OTHER_RSUB,
    OTHER_MUL,
    OTHER_RMUL,
    OTHER_DIV,
    OTHER_RDIV,
    OTHER_POW,
    OTHER_RPOW,
    OTHER_ITEM,
    ORDER,
    OPERATORS
};
PyObject* operators[OPERATORS];

// Inlined everywhere: as a function of its own it costs x[i] and x[i:j] a tenth of their time.
__attribute__((always_inline)) inline PyObject* call(Operator which, PyObject* x, PyObject* y = nullptr,
                                                     PyObject* z = nullptr) {
    PyObject* const args[] = {x, y, z};
    if (!operators[which]) return PyErr_SetString(PyExc_RuntimeError, "there are no operations"), nullptr;
    return PyObject_Vectorcall(operators[which], args, z ? 3 : y ? 2 : 1, nullptr);
}
bool is_number(PyObject* x) { return PyFloat_CheckExact(x) || PyLong_CheckExact(x); }

PyObject* add(PyObject* a, PyObject* b) {
    if (!is_expression(a)) return call(OTHER_RADD, b, a);
    return call(is_expression(b) ? ADD : is_number(b) ? SHIFT : OTHER_ADD, a, b);
}
PyObject* subtract(PyObject* a, PyObject* b) {
    if (!is_expression(a)) return call(OTHER_RSUB, b, a);
    return call(is_expression(b) ? SUBTRACT : OTHER_SUB, a, b);
}
PyObject* multiply(PyObject* a, PyObject* b) {
    if (!is_expression(a)) return call(is_number(a) ? SCALE : OTHER_RMUL, b, a);
    return call(is_expression(b) ? MULTIPLY : is_number(b) ? SCALE : OTHER_MUL, a, b);
}
PyObject* divide(PyObject* a, PyObject* b) {
    return is_expression(a) ? call(OTHER_DIV, a, b) : call(OTHER_RDIV, b, a);
}
PyObject* power(PyObject* a, PyObject* b, PyObject*) {  // the modulus is of no use, as in DyNet
    return is_expression(a) ? call(OTHER_POW, a, b) : call(OTHER_RPOW, b, a);
}
PyObject* negate(PyObject* a) { return call(NEGATE, a); }
// Two expressions are equal if they are one node. Their order is that of their numbers, which Python reads.
PyObject* compare(PyObject* self, PyObject* other, int how) {
    if (how != Py_EQ && how != Py_NE)
        return guarded([&] {
            const Ref sign = owned(PyLong_FromLong(how));
            return call(ORDER, self, other, sign.get());
        });
    if (!is_expression(other)) Py_RETURN_NOTIMPLEMENTED;
    const ExpressionObject *a = (ExpressionObject*)self, *b = (ExpressionObject*)other;
    const bool same = self == other || (a->graph && a->graph == b->graph && a->index == b->index &&
                                        a->generation == b->generation);
    return PyBool_FromLong(same == (how == Py_EQ));
}
// The size of the first axis, where that is no length; else -1.
long rows_of(PyObject* x) {
    GraphData* g = is_leaf(x) ? nullptr : data_of(x);
    if (!g) return -1;
    const Signature& s = g->signature(((ExpressionObject*)x)->index);
    const std::vector<int32_t>* sizes = g->known().sizes_of(s.kind);
    return s.ragged || !sizes || sizes->empty() ? -1 : sizes->front();
}
PyObject* subscript(PyObject* self, PyObject* key) {
    if (PyLong_CheckExact(key)) {
        const long row = PyLong_AsLong(key);
        if (row == -1 && PyErr_Occurred()) PyErr_Clear();
        if (row >= 0 && row < rows_of(self)) return call(PICK, self, key);
    } else if (PySlice_Check(key)) {
        const PySliceObject* slice = (PySliceObject*)key;
        const long rows = rows_of(self);
        long start = 0, stop = rows;
        const auto read = [](PyObject* x, long& to) {
            if (x == Py_None) return true;
            if (!PyLong_CheckExact(x)) return false;
            to = PyLong_AsLong(x);
            if (to == -1 && PyErr_Occurred()) PyErr_Clear();
            return true;
        };
        if (slice->step == Py_None && read(slice->start, start) && read(slice->stop, stop) && 0 <= start &&
            start < stop && stop <= rows)
            return guarded([&] {
                const Ref from = owned(PyLong_FromLong(start)), to = owned(PyLong_FromLong(stop));
                return call(PICK_RANGE, self, from.get(), to.get());
            });
    }
    return call(OTHER_ITEM, self, key);
}
PyObject* element(PyObject* self, Py_ssize_t n) {  // as a sequence
    return guarded([&] {
        const Ref key = owned(PyLong_FromSsize_t(n));
        return PyObject_GetItem(self, key.get());
    });
}
// (functions): what operators do, in the order of `Operator`.
PyObject* use_operators(PyObject*, PyObject* given) {
    return guarded([&]() -> PyObject* {
        const Ref several = owned(PySequence_Tuple(given));
        if (PyTuple_GET_SIZE(several.get()) != OPERATORS) fail(PyExc_ValueError, "not as many as operators");
        for (int k = 0; k < OPERATORS; k++)
            Py_XSETREF(operators[k], Py_NewRef(PyTuple_GET_ITEM(several.get(), k)));
        Py_RETURN_NONE;
    });
}
PyMethodDef functions[] = {
    {"use_operators", use_operators, METH_O, "(functions): what Python's operators do."},
    {nullptr, nullptr, 0, nullptr}};

// For parameters, and classes of the user's, whose instances are no nodes.
PyObject* new_plain(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }
PyObject* set_signature(PyObject* self, PyObject* signature) {
    return guarded([&]() -> PyObject* {
        LeafObject* leaf = (LeafObject*)self;
        const Ref kind = attribute(signature, "kind");
        leaf->kind = word(attribute(kind.get(), "id").get());
        leaf->constant = PyObject_IsTrue(attribute(kind.get(), "constant").get()) == 1;
        Py_XSETREF(leaf->signature, Py_NewRef(signature));
        Py_RETURN_NONE;
    });
}
PyObject* set_rows(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* signature;
        long rows;
        if (!PyArg_ParseTuple(args, "Ol", &signature, &rows)) throw Failed();
        TableObject* table = (TableObject*)self;
        const Ref operands = owned(PySequence_Tuple(attribute(signature, "operands").get()));
        if (PyTuple_GET_SIZE(operands.get()) != 1) fail(PyExc_ValueError, "no rows of one table");
        table->rows_kind = word(attribute(PyTuple_GET_ITEM(operands.get(), 0), "id").get());
        table->rows = rows;
        Py_XSETREF(table->row_signature, Py_NewRef(signature));
        Py_RETURN_NONE;
    });
}
PyObject* look_up(PyObject* self, PyObject* key) {
    return guarded([&]() -> PyObject* {
        const TableObject* table = (TableObject*)self;
        if (PyLong_CheckExact(key) && table->row_signature) {
            const long row = PyLong_AsLong(key);
            if (row == -1 && PyErr_Occurred()) PyErr_Clear();
            if (row >= 0 && row < table->rows) {
                NodesObject* graph = current_graph();
                if (!graph) throw Failed();
                MadeNode c{};
                {
                    const Held held(graph);
                    c.signature = signature_of(held.data().known(), table->row_signature);
                    held.check();
                }
                GraphData& g = *graph->data;
                g.ref_of(self);  // it lives as long as its nodes
                const size_t users = g.nodes.of_user.size();
                c.lanes = 1;
                c.given = -1;
                c.words = 1;
                c.first = c.shown = (int32_t)g.nodes.operands.size();
                c.lengths = (int32_t)g.nodes.lengths.size();
                c.data = (int32_t)g.nodes.data.size();
                g.nodes.data.push_back((int32_t)row);
                const int32_t node = g.nodes.add(c);
                Ref made = owned(new_expression(graph, node));
                if (g.watched) tell_of(graph, users);
                return made.release();
            }
        }
        return PyObject_CallMethodOneArg(self, names.item, key);
    });
}

PyMemberDef leaf_members[] = {
    {"storage", T_OBJECT_EX, offsetof(LeafObject, storage), 0, "What has its numbers."},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef leaf_methods[] = {
    {"_set_signature", set_signature, METH_O, "(signature): what it is as an operand."},
    {nullptr, nullptr, 0, nullptr}};
PyMethodDef table_methods[] = {
    {"_set_rows", set_rows, METH_VARARGS, "(signature, rows): that of nodes that look up one of so many."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, (void*)new_plain},
                       {Py_tp_dealloc, (void*)free_expression},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, attributes},
                       {Py_nb_add, (void*)add},
                       {Py_nb_subtract, (void*)subtract},
                       {Py_nb_multiply, (void*)multiply},
                       {Py_nb_matrix_multiply, (void*)multiply},
                       {Py_nb_true_divide, (void*)divide},
                       {Py_nb_power, (void*)power},
                       {Py_nb_negative, (void*)negate},
                       {Py_mp_subscript, (void*)subscript},
                       {Py_sq_item, (void*)element},
                       {Py_tp_hash, (void*)hash_of},
                       {Py_tp_richcompare, (void*)compare},
                       {0, nullptr}};
PyType_Spec spec = {"dynetjax.core.expression.Expression", sizeof(ExpressionObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
PyType_Slot leaf_slots[] = {{Py_tp_dealloc, (void*)free_leaf},
                            {Py_tp_methods, leaf_methods},
                            {Py_tp_members, leaf_members},
                            {0, nullptr}};
PyType_Spec leaf_spec = {"dynetjax.core.expression.Leaf", sizeof(LeafObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, leaf_slots};
PyType_Slot table_slots[] = {{Py_tp_dealloc, (void*)free_table},
                             {Py_tp_methods, table_methods},
                             {Py_mp_subscript, (void*)look_up},
                             {0, nullptr}};
PyType_Spec table_spec = {"dynetjax.core.expression.Table", sizeof(TableObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, table_slots};

}  // namespace

PyObject* new_expression(NodesObject* graph, int32_t node) {
    if (!graph->data || (size_t)node >= graph->data->nodes.made.size()) {
        PyErr_SetString(PyExc_ValueError, "the graph was renewed");
        return nullptr;
    }
    ExpressionObject* e = free_expressions;
    if (e) {
        free_expressions = (ExpressionObject*)e->graph;
        free_count--;
        PyObject_Init((PyObject*)e, expression_type);
    } else {
        e = PyObject_New(ExpressionObject, expression_type);
        if (!e) return nullptr;
    }
    e->graph = (NodesObject*)Py_NewRef((PyObject*)graph);
    e->index = node;
    e->generation = graph->data->nodes.made[(size_t)node].generation;
    return (PyObject*)e;
}

int32_t GraphData::ref_of(PyObject* leaf) {
    if (leaf == latest_leaf) return ref_of_leaf(latest_number);
    const auto at = leaf_numbers.emplace(leaf, (int32_t)leaves.size());
    if (at.second) {
        leaves.push_back(Ref(Py_NewRef(leaf)));
        const LeafObject* l = (LeafObject*)leaf;
        StoredObject* s = (StoredObject*)stored.get();
        if (!l->storage)
            ;  // it is no storage of ours
        else if (PyType_IsSubtype(Py_TYPE(leaf), table_type))
            s->tables->emplace(((TableObject*)leaf)->rows_kind, Ref(Py_NewRef(l->storage)));
        else
            s->parameters->emplace(l->kind, Parameter{Ref(Py_NewRef(l->storage)), l->constant});
    }
    latest_leaf = leaf;
    latest_number = at.first->second;
    return ref_of_leaf(latest_number);
}

void add_expressions(PyObject* module) {
    names.item = owned(PyUnicode_InternFromString("_item")).release();
    names.value = owned(PyUnicode_InternFromString("_value")).release();
    names.backward = owned(PyUnicode_InternFromString("_backward")).release();
    expression_type = add_type(module, "Expression", spec);
    leaf_type = add_type(module, "Leaf", leaf_spec, expression_type);
    table_type = add_type(module, "Table", table_spec, leaf_type);
    if (PyModule_AddFunctions(module, functions)) throw Failed();
}
