// `StoredNodes`, as both executors get it from Python.
#pragma once

#include <unordered_map>

#include "python.h"
#include "stored.h"

struct Parameter {
    Ref storage;
    bool constant;  // no gradient goes there
};
struct StoredObject {
    PyObject_HEAD StoredNodes* nodes;
    PyObject* given;  // a list of arrays of the user's
    // By kind, the parameters that nodes read, and storages of the tables whose rows they do.
    std::unordered_map<int32_t, Parameter>* parameters;
    std::unordered_map<int32_t, Ref>* tables;
};

// What a `StoredNodes` has; TypeError if it is none.
StoredObject* stored_in(PyObject* p);
Ref new_stored();

// The array that a node is.
inline Ref array_of(const StoredObject* s, const StoredNode& c) {
    if (c.given < 0) fail(PyExc_ValueError, "an input without numbers");
    return item(s->given, c.given);
}

// Raise unless a node may read what it does. `lanes_of` tells the lanes of a node by its number;
// `picked` are as many batch elements as it picks, null if it picks none.
template <class F>
void check_reads(Reading reading, int32_t lanes, const int32_t* refs, int32_t count, const int32_t* elements,
                 int32_t picked, F lanes_of) {
    const auto lanes_at = [&](int32_t k) { return refs[k] == NOTHING ? 0 : lanes_of(refs[k]); };
    if (lanes < 1) fail(PyExc_ValueError, "a node without rows");
    if (elements) {
        const bool copies = reading == Reading::COPIES;
        if (copies && count != 1) fail(PyExc_ValueError, "elements of several nodes");
        if (picked != (copies ? lanes : count)) fail(PyExc_ValueError, "elements for another batch");
        for (int32_t k = 0; k < picked; k++)
            if (elements[k] < 0 || elements[k] >= lanes_at(copies ? 0 : k))
                fail(PyExc_ValueError, "no such batch element");
    } else if (reading == Reading::COPIES) {
        int64_t all = 0;
        for (int32_t k = 0; k < count; k++) {
            if (!lanes_at(k)) fail(PyExc_ValueError, "a batch of nothing");
            all += lanes_at(k);
        }
        if (all != lanes) fail(PyExc_ValueError, "rows for another batch");
    } else {
        for (int32_t k = 0; k < count; k++)
            if (lanes_at(k) > 1 && lanes_at(k) != lanes)
                fail(PyExc_ValueError, "a node reads another batch");
    }
}
