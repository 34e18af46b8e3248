// Gradients of many parameters as one array, as processes send them to each other, and back.
#include <utility>

#include "kernels.h"
#include "storage_type.h"

namespace {

constexpr const char* OTHER = "an array of another size or type";

std::vector<View> arrays_in(PyObject* list) {
    std::vector<View> found;
    for (const Ref& array : items(list)) {
        found.emplace_back(array.get(), PyBUF_CONTIG_RO);
        if (found.back().raw().itemsize != 4) fail(PyExc_ValueError, OTHER);
    }
    return found;
}

struct Part {  // of arrays, for a storage
    Ref storage;
    size_t start;
    long size;
    bool has_gradient;

    // Let its gradient be the sum of the arrays there, of which there are some.
    void give(const std::vector<View>& terms) const {
        StorageObject* s = (StorageObject*)storage.get();
        Ref gradient(std::exchange(s->gradient, nullptr));
        s->has_gradient = has_gradient;
        if (!has_gradient) return;
        Numbers to;
        gradient = array_for_gradient(s, std::move(gradient), size, to);
        memcpy(to.data(), terms[0].as<float>() + start, 4 * size);
        for (size_t k = 1; k < terms.size(); k++)
            kernels().add(to.data(), terms[k].as<float>() + start, size);
        to = Numbers();
        Py_XSETREF(s->gradient, gradient.release());
    }
};

// (array, [arrays], factor): the numbers of all of them times the factor, end to end.
PyObject* gather(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *out, *arrays;
        double factor;
        if (!PyArg_ParseTuple(args, "OO!d", &out, &PyList_Type, &arrays, &factor)) throw Failed();
        const View to(out, PyBUF_CONTIG);
        const std::vector<View> from = arrays_in(arrays);
        size_t count = 0;
        for (const View& x : from) count += x.words();
        if (to.raw().itemsize != 4 || count != to.words()) fail(PyExc_ValueError, OTHER);
        {
            const Released released;
            float* d = to.as<float>();
            for (const View& x : from) {
                const float* a = x.as<float>();
                const size_t n = x.words();
                const float by = (float)factor;
                for (size_t k = 0; k < n; k++) d[k] = by * a[k];
                d += n;
            }
        }
        Py_RETURN_NONE;
    });
}

// ([arrays], [storages], sizes, which): have the storages with a flag have their part of the sum of the
// arrays as gradient, and the others none.
PyObject* scatter(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *arrays, *storages, *sizes, *flags;
        if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyList_Type, &arrays, &PyList_Type, &storages, &PyList_Type,
                              &sizes, &PyList_Type, &flags))
            throw Failed();
        const std::vector<View> terms = arrays_in(arrays);
        std::vector<Part> parts;
        size_t end = 0;
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(storages); k++) {
            const long size = word(item(sizes, k).get());
            parts.push_back({item(storages, k), end, size, integer(item(flags, k).get()) != 0});
            if (!PyObject_TypeCheck(parts.back().storage.get(), storage_type))
                fail(PyExc_TypeError, "no Storage");
            if (size < 0) fail(PyExc_ValueError, OTHER);
            end += size;
        }
        if (terms.empty()) fail(PyExc_ValueError, "no arrays");
        for (const View& x : terms)
            if (x.words() != end) fail(PyExc_ValueError, OTHER);
        for (const Part& part : parts) part.give(terms);
        Py_RETURN_NONE;
    });
}

PyMethodDef functions[] = {
    {"gather", gather, METH_VARARGS, "(array, arrays, factor): their numbers times the factor, end to end."},
    {"scatter", scatter, METH_VARARGS,
     "(arrays, storages, sizes, which): gradients of the storages that have one: their part of the sum."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_exchange(PyObject* module) {
    if (PyModule_AddFunctions(module, functions)) throw Failed();
}
