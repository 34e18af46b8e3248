// What the process knows of nodes: signatures, structures, and how nodes are made again.
#pragma once

#include <array>
#include <unordered_map>

#include "memo.h"
#include "python.h"
#include "structures.h"

struct Process {
    Structures structures;
    Memo memo;
    Ref tell, make;  // what a signature is; the fused op of a structure
    int32_t first;   // what Python calls the first structure: no other table has one of the same number
    std::vector<Ref> signatures, fused;
    std::unordered_map<PyObject*, int32_t> numbers;
    std::array<std::pair<PyObject*, int32_t>, 64> latest{};
    std::unordered_map<int32_t, std::vector<int32_t>> sizes;  // of a kind of rows or weights

    // Null where no signature had the kind.
    const std::vector<int32_t>* sizes_of(int32_t kind) const {
        const auto known = sizes.find(kind);
        return known == sizes.end() ? nullptr : &known->second;
    }
};
struct StructuresObject {
    PyObject_HEAD Process* process;
};

// A `Structures`; TypeError if it is none.
PyObject* structures_in(PyObject* p);
// The number of a signature.
int32_t signature_of(Process& p, PyObject* signature);
// That of the fused op of a structure.
int32_t fused_op_of(Process& p, int32_t structure);
