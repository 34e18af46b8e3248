// `Executor` for Python.
#include "executor_type.h"

#include <cmath>
#include <unordered_map>

#include "into_storages.h"

namespace {

struct ExecutorObject {
    PyObject_HEAD Encoder* state;
};
PyTypeObject* executor_type;

Encoder& state_of(PyObject* self) { return *((ExecutorObject*)self)->state; }
PyObject* new_executor(PyTypeObject* type, PyObject* args, PyObject*) {
    (void)std::uncaught_exceptions();  // as in the crew's threads
    return guarded([&]() -> PyObject* {
        PyObject *tables, *known = nullptr, *read = nullptr;
        int timed = 0;
        if (!PyArg_ParseTuple(args, "O|O!pO!", &tables, &PyDict_Type, &known, &timed, &PyDict_Type, &read))
            throw Failed();
        Ref programs = owned(known ? Py_NewRef(known) : PyDict_New());
        Ref arrays = owned(read ? Py_NewRef(read) : PyDict_New());
        Ref self = owned(type->tp_alloc(type, 0));
        ((ExecutorObject*)self.get())->state = new Encoder(tables, std::move(programs), std::move(arrays));
        state_of(self.get()).executor.timed = timed;
        return self.release();
    });
}
int traverse_executor(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Encoder* s = ((ExecutorObject*)self)->state;
    if (s) Py_VISIT(s->tables.get());
    if (s) Py_VISIT(s->programs.get());
    if (s) Py_VISIT(s->arrays.get());
    return 0;
}
int clear_executor(PyObject* self) {
    Encoder* s = ((ExecutorObject*)self)->state;
    if (!s) return 0;
    s->tables = Ref(Py_NewRef(Py_None));
    return 0;
}
void free_executor(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    delete ((ExecutorObject*)self)->state;
    type->tp_free(self);
    Py_DECREF(type);
}

// (stored nodes, start): compute the nodes from `start` on: -1, or the number of a fused op that has no
// program.
PyObject* extend(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* given;
        int start;
        if (!PyArg_ParseTuple(args, "Oi", &given, &start)) throw Failed();
        return PyLong_FromLong(state_of(self).extend(stored_in(given), start));
    });
}

const Node& node_of(Encoder& s, long n) {
    if (n < 0 || n >= (long)s.executor.nodes.size() || !s.executor.nodes[n].value)
        fail(PyExc_IndexError, "no such node");
    return s.executor.nodes[n];
}
const Node& node_of(Encoder& s, PyObject* which) { return node_of(s, integer(which)); }
// The rows of a node, as bytes.
PyObject* rows(PyObject* self, PyObject* which) {
    return guarded([&]() -> PyObject* {
        Encoder& s = state_of(self);
        const Computing busy(s);
        const Node& c = node_of(s, which);
        return PyBytes_FromStringAndSize((const char*)c.value,
                                         4L * c.lanes * s.executor.uses[c.use].program->size);
    });
}
// Write the rows of a node as doubles, the first index fastest and the batch last.
PyObject* array(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *which, *to;
        if (!PyArg_ParseTuple(args, "OO", &which, &to)) throw Failed();
        Encoder& s = state_of(self);
        const Computing busy(s);
        const Node& c = node_of(s, which);
        const View v(to, PyBUF_F_CONTIGUOUS | PyBUF_WRITABLE);
        const Py_buffer& b = v.raw();
        const int axes = b.ndim - (c.lanes > 1);
        const long size = s.executor.uses[c.use].program->size;
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
                    place -= apart[k] * b.shape[k];
                    at[k] = 0;
                }
            }
        }
        Py_RETURN_NONE;
    });
}
// Those of its gradient in the last backward; None if that did not reach it.
PyObject* gradient(PyObject* self, PyObject* which) {
    return guarded([&]() -> PyObject* {
        Encoder& s = state_of(self);
        const Computing busy(s);
        const Node& c = node_of(s, which);
        const float* found = s.executor.backward.gradient_of((int32_t)integer(which));
        if (!found) Py_RETURN_NONE;
        return PyBytes_FromStringAndSize((const char*)found,
                                         4L * c.lanes * s.executor.uses[c.use].program->size);
    });
}
// [(how many steps, nodes)] of the components that were computed, in order.
PyObject* components(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Encoder& s = state_of(self);
        const Computing busy(s);
        const Executor& g = s.executor;
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
                    push(nodes.get(), owned(PyLong_FromLong(g.order[x.first + i])).get());
                }
            }
            Ref entry = owned(Py_BuildValue("(lO)", steps, nodes.get()));
            if (PyList_GET_SIZE(nodes.get())) push(found.get(), entry.get());
        }
        return found.release();
    });
}
// [(fused op, groups, rows, seconds)] since the last call, of those that ran.
PyObject* times(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Encoder& s = state_of(self);
        const Computing busy(s);
        Ref found = owned(PyList_New(0));
        for (Use& u : s.executor.uses) {
            if (u.number < 0 || !(u.groups || u.seconds)) continue;
            Ref entry =
                owned(Py_BuildValue("(iLLd)", u.number, (long long)u.groups, (long long)u.rows, u.seconds));
            push(found.get(), entry.get());
            u.groups = u.rows = 0;
            u.seconds = 0;
        }
        return found.release();
    });
}
// How many words the instructions have written, and what moved or cleared rows.
PyObject* written(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Encoder& s = state_of(self);
        const Computing busy(s);
        return PyFloat_FromDouble(s.executor.written);
    });
}
PyObject* memory(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Encoder& s = state_of(self);
        const Computing busy(s);
        return PyLong_FromSize_t(s.executor.memory());
    });
}
PyObject* cut(PyObject* self, PyObject* count) {
    return guarded([&]() -> PyObject* {
        const int32_t n = word(count);
        if (n < 0) fail(PyExc_ValueError, "less than no nodes");
        Encoder& s = state_of(self);
        const Computing busy(s);
        s.executor.cut(n);
        Py_RETURN_NONE;
    });
}

// A node to go back from, which is one number where its gradient is not given.
Backward::Root root_of(const Executor& g, PyObject* number, PyObject* gradient) {
    const long n = integer(number);
    if (n < 0 || n >= (long)g.nodes.size() || g.nodes[n].external) fail(PyExc_IndexError, "no such node");
    Backward::Root root{(int32_t)n, gradient ? copied<float>(gradient) : std::vector<float>(1, 1.f)};
    if (root.gradient.size() != (size_t)g.nodes[n].lanes * g.uses[g.nodes[n].use].program->size)
        fail(PyExc_ValueError, "the root is not one number, or its gradient has another size");
    return root;
}

// (root, index of its node, full, new) -> (fused ops up to it, [(table, ids, gradients)]).
// The root is the number of a node, or a list of (number, gradient) of several.
// `new(kind)` gives an array of zeros to which the gradient of a weight is added.
PyObject* backward(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        Encoder& s = state_of(self);
        const Computing busy(s);
        long index;
        int full;
        PyObject *root, *make;
        if (!PyArg_ParseTuple(args, "OlpO", &root, &index, &full, &make)) throw Failed();
        Executor& g = s.executor;
        std::vector<Backward::Root> roots;
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
        for (const Use& u : g.uses)
            if (u.program->form == Form::MAP && !u.program->differentiable)
                fail(PyExc_RuntimeError, "a fused op has no derivative");
        std::vector<View> kept;
        const auto gradients = gradients_by_use(g, [&](int32_t kind, int32_t size) {
            const Ref number = owned(PyLong_FromLong(kind));
            kept.emplace_back(owned(PyObject_CallOneArg(make, number.get())).get(), PyBUF_CONTIG);
            if ((int64_t)kept.back().words() < size) fail(PyExc_ValueError, "a gradient is too small");
            return kept.back().as<float>();
        });
        {
            const Released released;
            g.backward.run(roots, full, gradients);
        }
        Ref ops = owned(PyList_New(0)), tables = owned(PyList_New(0));
        const std::vector<bool> met = weighted_up_to(g, index);
        for (size_t n = 0; n < g.uses.size(); n++) {
            if (!met[n]) continue;
            const Use& u = g.uses[n];
            push(ops.get(), owned(PyLong_FromLong(u.number)).get());
            if (u.program->form != Form::LOOKUP) continue;
            const Touched t = touched_rows(g, n, index);
            Ref entry = owned(Py_BuildValue("(iOO)", u.program->table, t.ids.get(), t.gradients.get()));
            push(tables.get(), entry.get());
        }
        return Py_BuildValue("(OO)", ops.get(), tables.get());
    });
}

PyObject* count(PyObject* self, void*) { return PyLong_FromSize_t(state_of(self).executor.nodes.size()); }
PyObject* tables_of(PyObject* self, void*) { return Py_NewRef(state_of(self).tables.get()); }
int set_tables(PyObject* self, PyObject* tables, void*) {
    state_of(self).tables = Ref(Py_NewRef(tables ? tables : Py_None));
    return 0;
}
PyGetSetDef executor_attributes[] = {{"count", count, nullptr, "How many stored nodes it knows.", nullptr},
                                     {"tables", tables_of, set_tables, "What it asks in Python.", nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef executor_methods[] = {
    {"extend", extend, METH_VARARGS, "(stored nodes, start): compute the nodes from `start` on."},
    {"rows", rows, METH_O, "The rows of a node, as bytes of float32."},
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
PyType_Slot executor_slots[] = {{Py_tp_new, (void*)new_executor},
                                {Py_tp_dealloc, (void*)free_executor},
                                {Py_tp_traverse, (void*)traverse_executor},
                                {Py_tp_clear, (void*)clear_executor},
                                {Py_tp_methods, executor_methods},
                                {Py_tp_getset, executor_attributes},
                                {Py_tp_doc, (void*)"What one graph has computed."},
                                {0, nullptr}};
PyType_Spec executor_spec = {"dynetjax.engine.native.core.Executor", sizeof(ExecutorObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, executor_slots};

}  // namespace

void check_executor(PyObject* p) {
    if (!PyObject_TypeCheck(p, executor_type)) fail(PyExc_TypeError, "no Executor");
}
int32_t executed(PyObject* executor) { return (int32_t)state_of(executor).executor.nodes.size(); }
bool execute(PyObject* executor, const StoredObject* stored, PyObject* graph) {
    Encoder& s = state_of(executor);
    s.whose = graph;
    struct Asked {
        PyObject*& graph;
        ~Asked() { graph = nullptr; }
    } const asked{s.whose};
    return s.extend(stored, executed(executor)) == DONE;
}
bool go_back(PyObject* executor, const StoredObject* stored, int32_t node, int32_t index) {
    Encoder& s = state_of(executor);
    if (!are_plain(s.executor, stored)) return false;
    return go_back_into_storages(s, stored, node, index);
}
double first_number(PyObject* executor, int32_t node) {
    Encoder& s = state_of(executor);
    const Computing busy(s);
    return *node_of(s, node).value;
}
bool is_finite(PyObject* executor, int32_t node) {
    Encoder& s = state_of(executor);
    const Computing busy(s);
    const Node& c = node_of(s, node);
    const size_t count = (size_t)c.lanes * s.executor.uses[c.use].program->size;
    for (size_t k = 0; k < count; k++)
        if (!std::isfinite(c.value[k])) return false;
    return true;
}
size_t taken(PyObject* executor) { return state_of(executor).executor.memory(); }

void add_executor(PyObject* module) { executor_type = add_type(module, "Executor", executor_spec); }
