// The numbers of parameters and tables, as Python and executors have them.
#pragma once

#include "python.h"

// What the classes of `dynetjax.model.storage` have as their base. Null is None.
struct StorageObject {
    PyObject_HEAD PyObject* array;   // of NumPy, or another one's
    PyObject* device;                // the same numbers, of JAX, if they are there
    PyObject *factor, *deferred;     // of a table that decays, or whose rows may have missed updates
    PyObject* gradient;              // none: zeros
    PyObject *spare, *spare_values;  // arrays for the next gradient, and the next values
    PyObject* parts;                 // gradients of rows of a table
    char has_gradient;
};
extern PyTypeObject* storage_type;

// An array of float32 of NumPy, whole and in C order, which lives as long as this does.
class Numbers {
public:
    // Whether `array` is one.
    bool read(PyObject* array, int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
    const Ref& array() const { return array_; }
    float* data() const { return view_->as<float>(); }
    size_t size() const { return view_->words(); }

private:
    Ref array_;
    std::unique_ptr<View> view_;
};
// Whether something is an array of NumPy.
bool is_array(PyObject* x);
// An array of JAX as one of NumPy, for which this waits until XLA has computed it; others as they are.
Ref array_on_host(PyObject* array);
// Whether a parameter's numbers are its own, and in the host's memory.
bool has_array(PyObject* storage);
// The values and the gradient of a parameter in the host's memory; the latter may be None.
Ref values_on_host(PyObject* storage);
Ref gradient_on_host(PyObject* storage);
// An array for so many new values: one that nobody has any more, or a new one.
Numbers array_for_values(StorageObject* storage, size_t size);
// Let a parameter have these values, and no gradient.
void give_values(StorageObject* storage, PyObject* array);
// Whether nobody else has an array, which can be written to.
bool is_array_of_its_own(PyObject* array, Numbers& to);
// An array for so many numbers of a parameter's gradient: `old`, if nobody else has it, or a new one.
Ref array_for_gradient(StorageObject* storage, Ref old, size_t size, Numbers& to);
// Of a parameter or a table, if its values are just those of such an array.
bool read_values(PyObject* storage, Numbers& to);
