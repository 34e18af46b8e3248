// A flat graph: nodes and what they read, placed on the lanes and rows of a program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reads.h"

// What a program family knows of its ops.
struct Facts {
    const int32_t* component;  // of each op
    size_t ops;
    const int32_t* cyclic;  // of each component: whether it is a loop
    size_t components;
    const int32_t *first, *groups;  // where `groups` has an op's leaves: the group of each
    const int32_t* aligned;  // of each leaf: whether it is taken to read the same lane of the same trip
    size_t leaves;
};

// Where an index buffer has the columns of each op, of one number per lane; -1 is no column.
struct Addresses {
    const int32_t *valid, *first, *leaves;
    size_t ops, columns;
};

class FlatGraph {
public:
    struct Node {
        int32_t op, lanes;
        int32_t reads, count;  // where `refs` has what it reads, and how many
        int32_t chosen;        // where `elements` has the batch elements that it picks; -1: it picks none
        bool copies;           // rows of others, lane by lane: all its operands have one column
        int32_t position, row;
    };
    std::vector<Node> nodes;  // imports last; `op` counts the fused ops of this graph until `bind`
    std::vector<int32_t> refs, elements, older;
    int32_t count = 0;  // nodes without imports

    void bind(const std::vector<int32_t>& ops) {
        for (Node& n : nodes) n.op = ops[n.op];
    }
    // Whether facts cover all ops, and nodes read what they can: a description of what is wrong.
    std::string check(const Facts& f) const;
    // Pairs of a group of leaves and an op whose rows it reads, that are not marked in `known`,
    // which has a row of ops for each group; marks them.
    std::vector<int32_t> edges(const Facts& f, uint8_t* known) const;
    // Of each component, the lanes in each of its levels.
    std::vector<std::vector<int32_t>> levels(const Facts& f) const;
    // Give every node its lanes; the trips of each component.
    std::vector<int32_t> place(const Facts& f, const std::vector<int32_t>& widths);
    // Pairs of an op and a leaf that is taken to be aligned and is not.
    std::vector<int32_t> unaligned(const Facts& f) const;
    // Write into an index buffer of `size` numbers; false if it is too small.
    bool write(const Addresses& a, const int32_t* bases, int32_t* buffer, size_t size);
    // The nodes that `root` is not made of.
    std::vector<int32_t> unused(int32_t root) const;
    // Let the lanes of these be empty.
    bool clear(const std::vector<int32_t>& which, const Addresses& a, int32_t* buffer, size_t size) const;
};
