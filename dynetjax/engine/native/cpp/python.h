// Python's objects as C++ has them.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

struct Program;

struct Failed {};  // Python has an exception set

class Ref {  // owns a reference
public:
    explicit Ref(PyObject* p = nullptr) : p_(p) {}
    Ref(Ref&& other) noexcept : p_(other.p_) { other.p_ = nullptr; }
    Ref& operator=(Ref&& other) noexcept {
        std::swap(p_, other.p_);
        return *this;
    }
    Ref(const Ref&) = delete;
    Ref& operator=(const Ref&) = delete;
    ~Ref() { Py_XDECREF(p_); }
    PyObject* get() const { return p_; }
    PyObject* release() {
        PyObject* p = p_;
        p_ = nullptr;
        return p;
    }

private:
    PyObject* p_;
};

inline Ref owned(PyObject* p) {
    if (!p) throw Failed();
    return Ref(p);
}
[[noreturn]] inline void fail(PyObject* kind, const char* what) {
    PyErr_SetString(kind, what);
    throw Failed();
}

// The entries of a list, which may change meanwhile.
inline std::vector<Ref> items(PyObject* list) {
    std::vector<Ref> found;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++)
        found.emplace_back(Py_NewRef(PyList_GET_ITEM(list, k)));
    return found;
}

class View {  // words of a contiguous buffer, as long as this lives
public:
    explicit View(PyObject* p, int flags = PyBUF_CONTIG_RO) {
        if (PyObject_GetBuffer(p, &b_, flags)) throw Failed();
    }
    View(View&& other) noexcept : b_(other.b_) { other.b_.obj = nullptr; }
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    ~View() {
        if (b_.obj) PyBuffer_Release(&b_);
    }
    template <class T>
    T* as() const {
        return (T*)b_.buf;
    }
    size_t words() const { return (size_t)b_.len / 4; }
    size_t bytes() const { return (size_t)b_.len; }
    const Py_buffer& raw() const { return b_; }

private:
    Py_buffer b_;
};
template <class T>
std::vector<T> copied(PyObject* p) {
    const View v(p);
    if (v.bytes() % sizeof(T)) fail(PyExc_ValueError, "a buffer has part of an element");
    std::vector<T> found(v.bytes() / sizeof(T));
    if (!found.empty()) memcpy(found.data(), v.as<void>(), v.bytes());
    return found;
}

inline long integer(PyObject* p) {
    const long found = PyLong_AsLong(p);
    if (found == -1 && PyErr_Occurred()) throw Failed();
    return found;
}
inline double number(PyObject* p) {
    const double found = PyFloat_AsDouble(p);
    if (found == -1 && PyErr_Occurred()) throw Failed();
    return found;
}

inline int32_t word(PyObject* p) {
    const long found = integer(p);
    if (found != (int32_t)found) fail(PyExc_OverflowError, "a number has more than 32 bits");
    return (int32_t)found;
}
inline std::vector<int32_t> words_in(PyObject* sequence) {
    const Ref several = owned(PySequence_Tuple(sequence));
    std::vector<int32_t> found;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(several.get()); k++)
        found.push_back(word(PyTuple_GET_ITEM(several.get(), k)));
    return found;
}
template <class T>  // of 32 bits
Ref bytes_of(const std::vector<T>& words) {
    static_assert(sizeof(T) == 4);
    return owned(PyBytes_FromStringAndSize((const char*)words.data(), 4 * (Py_ssize_t)words.size()));
}
inline Ref list_of(const int32_t* numbers, size_t count) {
    Ref found = owned(PyList_New((Py_ssize_t)count));
    for (size_t k = 0; k < count; k++)
        PyList_SET_ITEM(found.get(), (Py_ssize_t)k, owned(PyLong_FromLong(numbers[k])).release());
    return found;
}
inline Ref list_of(const std::vector<int32_t>& numbers) { return list_of(numbers.data(), numbers.size()); }
inline void push(PyObject* list, PyObject* x) {
    if (PyList_Append(list, x)) throw Failed();
}
// Of a list, which may have become shorter.
inline Ref item(PyObject* list, Py_ssize_t n) { return owned(Py_XNewRef(PyList_GetItem(list, n))); }

// What a method of an object returns.
template <class... Arguments>
Ref called(PyObject* on, const char* method, Arguments... arguments) {
    const Ref name = owned(PyUnicode_InternFromString(method));
    PyObject* all[] = {on, arguments...};
    return owned(PyObject_VectorcallMethod(name.get(), all, sizeof...(arguments) + 1, nullptr));
}
inline Ref attribute(PyObject* of, PyObject* name) { return owned(PyObject_GetAttr(of, name)); }
inline Ref attribute(PyObject* of, const char* name) { return owned(PyObject_GetAttrString(of, name)); }

class Released {  // the GIL, meanwhile; nothing that lives in it may call Python
public:
    Released() : state_(PyEval_SaveThread()) {}
    ~Released() { PyEval_RestoreThread(state_); }
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;

private:
    PyThreadState* state_;
};

// Runs `f`; what goes wrong becomes Python's exception.
template <class F>
PyObject* guarded(F f) {
    try {
        return f();
    } catch (const Failed&) {
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::length_error&) {  // a vector of more than there can be
        PyErr_NoMemory();
    } catch (const std::invalid_argument& e) {
        PyErr_SetString(PyExc_ValueError, e.what());
    } catch (const std::overflow_error& e) {
        PyErr_SetString(PyExc_OverflowError, e.what());
    } catch (const std::exception& e) {
        PyErr_SetString(PyExc_RuntimeError, e.what());
    }
    return nullptr;
}

// The program of a `Program`; TypeError if it is none.
const std::shared_ptr<const Program>& program_in(PyObject* p);
// A new type, which the module has, and the process for good.
inline PyTypeObject* add_type(PyObject* module, const char* name, PyType_Spec& spec,
                              PyTypeObject* base = nullptr) {
    Ref type = owned(PyType_FromSpecWithBases(&spec, (PyObject*)base));
    if (PyModule_AddObjectRef(module, name, type.get())) throw Failed();
    return (PyTypeObject*)type.release();
}
// What files have for the module.
void add_programs(PyObject* module);
void add_executor(PyObject* module);
void add_updates(PyObject* module);
void add_exchange(PyObject* module);
void add_planner(PyObject* module);
void add_stored(PyObject* module);
void add_structures(PyObject* module);
void add_expressions(PyObject* module);
void add_storages(PyObject* module);
void add_nodes(PyObject* module);
void add_functions(PyObject* module);
