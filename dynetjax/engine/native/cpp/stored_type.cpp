// Stored nodes for Python: `StoredNodes`.
#include "stored_type.h"

namespace {

PyTypeObject* stored_type;

PyObject* make_stored(PyTypeObject*, PyObject* args, PyObject*) {
    return guarded([&]() -> PyObject* {
        if (!PyArg_ParseTuple(args, "")) throw Failed();
        return new_stored().release();
    });
}
void free_stored(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete ((StoredObject*)self)->nodes;
    delete ((StoredObject*)self)->parameters;
    delete ((StoredObject*)self)->tables;
    Py_XDECREF(((StoredObject*)self)->given);
    type->tp_free(self);
    Py_DECREF(type);
}
StoredNodes& stored_of(PyObject* self) { return *((StoredObject*)self)->nodes; }
const StoredNode& stored_node(PyObject* self, PyObject* number) {
    const long n = integer(number);
    if (n < 0 || n >= stored_of(self).size()) fail(PyExc_IndexError, "no such node");
    return stored_of(self).nodes[(size_t)n];
}
Py_ssize_t count_stored(PyObject* self) { return stored_of(self).size(); }
// (fused op, lanes, reads, data, index, given): add a node; what it reads, and its data, are ints.
PyObject* add_stored(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *reads, *data, *given = Py_None, *fused, *lanes, *index;
        if (!PyArg_ParseTuple(args, "OOOOO|O", &fused, &lanes, &reads, &data, &index, &given))
            throw Failed();
        StoredNodes& s = stored_of(self);
        const std::vector<int32_t> read = words_in(reads), words = words_in(data);
        const int32_t op = word(fused), count = word(lanes), number = word(index);
        PyObject* arrays = ((StoredObject*)self)->given;
        int32_t at = -1;
        if (given != Py_None) {
            at = narrow(PyList_GET_SIZE(arrays));
            push(arrays, given);
        }
        const size_t first = s.reads.size(), data_first = s.data.size();
        s.reads.insert(s.reads.end(), read.begin(), read.end());
        s.data.insert(s.data.end(), words.begin(), words.end());
        return PyLong_FromLong(s.add(op, count, first, data_first, number, at));
    });
}
PyObject* cut_stored(PyObject* self, PyObject* count) {
    return guarded([&]() -> PyObject* {
        const int32_t n = word(count);
        if (n < 0) fail(PyExc_ValueError, "less than no nodes");
        stored_of(self).cut(n);
        Py_RETURN_NONE;
    });
}
PyObject* fused_of(PyObject* self, PyObject* number) {
    return guarded([&] { return PyLong_FromLong(stored_node(self, number).fused); });
}
PyObject* lanes_of(PyObject* self, PyObject* number) {
    return guarded([&] { return PyLong_FromLong(stored_node(self, number).lanes); });
}
PyObject* index_of(PyObject* self, PyObject* number) {
    return guarded([&] { return PyLong_FromLong(stored_node(self, number).index); });
}
PyObject* given_of(PyObject* self, PyObject* number) {
    return guarded([&] { return array_of((StoredObject*)self, stored_node(self, number)).release(); });
}
PyObject* reads_of(PyObject* self, PyObject* number) {
    return guarded([&] {
        const StoredNode& c = stored_node(self, number);
        return list_of(stored_of(self).reads.data() + c.first, (size_t)c.count).release();
    });
}
PyObject* data_of(PyObject* self, PyObject* number) {
    return guarded([&] {
        const StoredNode& c = stored_node(self, number);
        return list_of(stored_of(self).data.data() + c.data, (size_t)c.words).release();
    });
}
// (numbers, letters, field): a column of runtime data of nodes whose data are of these letters.
PyObject* column(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* numbers;
        const char* letters;
        int field;
        if (!PyArg_ParseTuple(args, "Osi", &numbers, &letters, &field)) throw Failed();
        if (field < 0 || field >= (int)strlen(letters)) fail(PyExc_IndexError, "no such runtime data");
        const StoredNodes& s = stored_of(self);
        std::vector<int32_t> found;
        for (int32_t n : copied<int32_t>(numbers)) {
            if (n < 0 || n >= s.size()) fail(PyExc_IndexError, "no such node");
            const StoredNode& c = s.nodes[(size_t)n];
            if (c.lanes < 1) fail(PyExc_ValueError, "a node without rows");
            int64_t at = 0;
            for (int k = 0; k < field; k++) at += letters[k] == 'k' ? 1 : c.lanes;
            const int32_t count = letters[field] == 'k' ? 1 : c.lanes;
            if (at + count > c.words) fail(PyExc_ValueError, "runtime data is missing");
            found.insert(found.end(), s.data.begin() + c.data + at, s.data.begin() + c.data + at + count);
        }
        return bytes_of(found).release();
    });
}
// (start): [(fused op, rows)] of the nodes from `start` on.
PyObject* rows_by_op(PyObject* self, PyObject* from) {
    return guarded([&]() -> PyObject* {
        const long start = integer(from);
        if (start < 0) fail(PyExc_IndexError, "no such node");
        std::vector<std::pair<int32_t, int64_t>> rows;
        std::unordered_map<int32_t, size_t> places;
        const StoredNodes& s = stored_of(self);
        for (size_t n = (size_t)start; n < s.nodes.size(); n++) {
            const auto at = places.emplace(s.nodes[n].fused, rows.size());
            if (at.second) rows.push_back({s.nodes[n].fused, 0});
            rows[at.first->second].second += s.nodes[n].lanes;
        }
        Ref found = owned(PyList_New(0));
        for (const auto& [op, count] : rows) {
            push(found.get(), owned(Py_BuildValue("(iL)", op, (long long)count)).get());
        }
        return found.release();
    });
}

PyMethodDef stored_methods[] = {
    {"add", add_stored, METH_VARARGS, "(fused op, lanes, reads, data, index, given=None): add a node."},
    {"cut", cut_stored, METH_O, "Keep so many nodes."},
    {"fused", fused_of, METH_O, "The number of a node's fused op."},
    {"lanes", lanes_of, METH_O, "A node's batch size."},
    {"index", index_of, METH_O, "A node's number among the user's."},
    {"reads", reads_of, METH_O, "The numbers of the nodes that a node reads; -1 for zeros."},
    {"data", data_of, METH_O, "A node's runtime data, as ints of 32 bits."},
    {"given", given_of, METH_O, "The array that the user gave."},
    {"column", column, METH_VARARGS,
     "(numbers, letters, field): a column of runtime data, as bytes of 32 bits a lane; of random keys, the "
     "numbers of nodes."},
    {"rows_by_op", rows_by_op, METH_O, "(start): (fused op, rows) of the nodes from `start` on."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot stored_slots[] = {
    {Py_tp_new, (void*)make_stored},
    {Py_tp_dealloc, (void*)free_stored},
    {Py_tp_methods, stored_methods},
    {Py_sq_length, (void*)count_stored},
    {Py_tp_doc, (void*)"The nodes of a graph that have rows, as both executors read them."},
    {0, nullptr}};
PyType_Spec stored_spec = {"dynetjax.engine.native.core.StoredNodes", sizeof(StoredObject), 0,
                           Py_TPFLAGS_DEFAULT, stored_slots};

}  // namespace

Ref new_stored() {
    Ref self = owned(stored_type->tp_alloc(stored_type, 0));
    StoredObject* s = (StoredObject*)self.get();
    s->nodes = new StoredNodes;
    s->parameters = new std::unordered_map<int32_t, Parameter>;
    s->tables = new std::unordered_map<int32_t, Ref>;
    s->given = owned(PyList_New(0)).release();
    return self;
}

StoredObject* stored_in(PyObject* p) {
    if (!PyObject_TypeCheck(p, stored_type)) fail(PyExc_TypeError, "no StoredNodes");
    return (StoredObject*)p;
}

void add_stored(PyObject* module) { stored_type = add_type(module, "StoredNodes", stored_spec); }
