// Storages for Python: `Storage`.
#include "storage_type.h"

#include <utility>

// After Python.h:
#include <structmember.h>

PyTypeObject* storage_type;

namespace {

PyObject* array_type;  // NumPy's

PyObject* new_storage(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }
void free_storage(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    StorageObject* s = (StorageObject*)self;
    Py_XDECREF(s->array);
    Py_XDECREF(s->device);
    Py_XDECREF(s->factor);
    Py_XDECREF(s->deferred);
    Py_XDECREF(s->gradient);
    Py_XDECREF(s->spare);
    Py_XDECREF(s->spare_values);
    Py_XDECREF(s->parts);
    type->tp_free(self);
    Py_DECREF(type);
}
// (class): what arrays of NumPy are.
PyObject* use_arrays(PyObject*, PyObject* type) {
    Py_XSETREF(array_type, Py_NewRef(type));
    Py_RETURN_NONE;
}

PyMemberDef members[] = {
    {"_array", T_OBJECT, offsetof(StorageObject, array), 0, "Its numbers, of NumPy or another one's."},
    {"_device", T_OBJECT, offsetof(StorageObject, device), 0, "The same of JAX, if they are there."},
    {"_factor", T_OBJECT, offsetof(StorageObject, factor), 0, "On the numbers of a table that decays."},
    {"deferred", T_OBJECT, offsetof(StorageObject, deferred), 0, "Has rows catch up with updates."},
    {"gradient", T_OBJECT, offsetof(StorageObject, gradient), 0, "Accumulated; None stands for zeros."},
    {"spare", T_OBJECT, offsetof(StorageObject, spare), 0,
     "An array for the next gradient, if there is one."},
    {"_spare_values", T_OBJECT, offsetof(StorageObject, spare_values), 0,
     "An array for the next values, if there is one."},
    {"_parts", T_OBJECT, offsetof(StorageObject, parts), 0, "Gradients of rows of a table."},
    {"has_gradient", T_BOOL, offsetof(StorageObject, has_gradient), 0, "A backward reached it."},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef functions[] = {{"use_arrays", use_arrays, METH_O, "(class): what arrays of NumPy are."},
                           {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, (void*)new_storage},
                       {Py_tp_dealloc, (void*)free_storage},
                       {Py_tp_members, members},
                       {Py_tp_doc, (void*)"The numbers of a parameter or a table."},
                       {0, nullptr}};
PyType_Spec spec = {"dynetjax.engine.native.core.Storage", sizeof(StorageObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

constexpr int WRITABLE = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE;

bool is_none(PyObject* x) { return !x || x == Py_None; }

}  // namespace

bool is_array(PyObject* x) { return x && (PyObject*)Py_TYPE(x) == array_type; }

Ref array_on_host(PyObject* array) {
    if (is_array(array)) return Ref(Py_NewRef(array));
    const Ref numpy = owned(PyImport_ImportModule("numpy"));
    return called(numpy.get(), "ascontiguousarray", array);
}

bool Numbers::read(PyObject* array, int flags) {
    if (!is_array(array)) return false;
    try {
        view_ = std::make_unique<View>(array, flags);
    } catch (const Failed&) {
        PyErr_Clear();
        return false;
    }
    const Py_buffer& b = view_->raw();
    if (b.itemsize != 4 || !b.format || strcmp(b.format, "f")) return false;
    array_ = Ref(Py_NewRef(array));
    return true;
}

bool has_array(PyObject* storage) {
    if (!PyObject_TypeCheck(storage, storage_type)) return false;
    return is_array(((StorageObject*)storage)->array);
}
Ref values_on_host(PyObject* storage) {
    if (has_array(storage)) return Ref(Py_NewRef(((StorageObject*)storage)->array));
    return called(storage, "host_values");
}
Ref gradient_on_host(PyObject* storage) {
    PyObject* array = ((StorageObject*)storage)->gradient;
    return is_none(array) ? Ref(Py_NewRef(Py_None)) : array_on_host(array);
}
Numbers array_for_values(StorageObject* s, size_t size) {
    const Ref old(std::exchange(s->spare_values, nullptr));
    Numbers to;
    if (is_array_of_its_own(old.get(), to) && to.size() == size && (uintptr_t)to.data() % 64 == 0) {
        const Ref owner = attribute(old.get(), "base");  // which others may have, too
        if (owner.get() == Py_None || Py_REFCNT(owner.get()) == 2) return to;
    }
    const Ref made = called((PyObject*)s, "_empty");
    if (!to.read(made.get(), WRITABLE) || to.size() != size)
        fail(PyExc_ValueError, "values have another size");
    return to;
}
void give_values(StorageObject* s, PyObject* array) {
    Ref old(std::exchange(s->array, Py_NewRef(array)));
    Py_CLEAR(s->device);
    if (is_array(old.get())) Py_XSETREF(s->spare_values, old.release());
    Ref gradient(std::exchange(s->gradient, nullptr));
    if (is_array(gradient.get())) Py_XSETREF(s->spare, gradient.release());
    s->has_gradient = false;
}

bool is_array_of_its_own(PyObject* array, Numbers& to) {
    return array && Py_REFCNT(array) == 1 && to.read(array, WRITABLE);
}
Ref array_for_gradient(StorageObject* storage, Ref old, size_t size, Numbers& to) {
    if (is_array_of_its_own(old.get(), to) && to.size() == size) return old;
    to = Numbers();
    Ref made = called((PyObject*)storage, "_zeros");
    if (!to.read(made.get(), WRITABLE) || to.size() != size)
        fail(PyExc_ValueError, "a gradient has another size");
    return made;
}

bool read_values(PyObject* storage, Numbers& to) {
    if (!storage || !PyObject_TypeCheck(storage, storage_type)) return false;
    const StorageObject* s = (StorageObject*)storage;
    return is_none(s->factor) && is_none(s->deferred) && to.read(s->array);
}

void add_storages(PyObject* module) {
    storage_type = add_type(module, "Storage", spec);
    if (PyModule_AddFunctions(module, functions)) throw Failed();
}
