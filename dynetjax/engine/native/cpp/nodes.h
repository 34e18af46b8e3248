// Python's nodes as both executors read them: which rule a node follows, what it reads, and
// whether it may.
#pragma once

#include <array>

#include "python.h"
#include "reads.h"

// What is known of a rule, of those that came last.
class Rules {
public:
    int32_t* find(PyObject* rule) {
        Known& at = known_[place(rule)];
        return at.rule.get() == rule ? &at.what : nullptr;
    }
    void know(PyObject* rule, int32_t what) { known_[place(rule)] = {Ref(Py_NewRef(rule)), what}; }
    int visit(visitproc visit, void* arg) const {
        for (const Known& at : known_) Py_VISIT(at.rule.get());
        return 0;
    }

private:
    struct Known {
        Ref rule;
        int32_t what;
    };
    std::array<Known, 64> known_;
    size_t place(PyObject* rule) const { return (uintptr_t)rule / 64 % known_.size(); }
};

// Append the numbers of the nodes that args name: those at `places`, or all.
inline void append_reads(std::vector<int32_t>& refs, PyObject* args, const std::vector<int32_t>* places) {
    if (!PyTuple_Check(args)) fail(PyExc_TypeError, "a node's args are no tuple");
    const Py_ssize_t given = PyTuple_GET_SIZE(args);
    if (!places)
        for (Py_ssize_t k = 0; k < given; k++) refs.push_back(word(PyTuple_GET_ITEM(args, k)));
    else
        for (int32_t place : *places) {
            if (place < 0 || place >= given) fail(PyExc_ValueError, "an operand is missing");
            refs.push_back(word(PyTuple_GET_ITEM(args, place)));
        }
}

// Append the batch elements that a node picks; where they begin, -1 if it picks none.
inline int32_t append_elements(std::vector<int32_t>& elements, PyObject* data) {
    if (data == Py_None) return -1;
    const int32_t begin = narrow((int64_t)elements.size());
    const Ref several = owned(PySequence_Tuple(data));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(several.get()); k++)
        elements.push_back(word(PyTuple_GET_ITEM(several.get(), k)));
    return begin;
}

// Raise unless a node may read these. `lanes_of` tells the lanes of a node by its number;
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
