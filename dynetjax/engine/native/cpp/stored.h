// Stored nodes: those that have rows, as both executors read them.
#pragma once

#include <cstdint>
#include <vector>

#include "reads.h"

struct StoredNode {
    int32_t fused, lanes;
    int32_t first, count;  // where `reads` has the stored nodes that it reads, and how many
    int32_t data, words;   // where `data` has its runtime data, and how many words
    int32_t index;         // among the user's nodes
    int32_t given;         // the user's array that it is; -1 if it is none
};

// Runtime data lies field by field: a number for each lane, for random keys one for all lanes. Of
// a node that picks batch elements, or rows of a table, it is which.
class StoredNodes {
public:
    std::vector<StoredNode> nodes;
    std::vector<int32_t> reads, data;

    int32_t size() const { return (int32_t)nodes.size(); }
    // Add a node that reads all that came into `reads` since `first`, and `data` likewise.
    int32_t add(int32_t fused, int32_t lanes, size_t first, size_t data_first, int32_t index,
                int32_t given = -1) {
        nodes.push_back({fused, lanes, narrow((int64_t)first), narrow((int64_t)(reads.size() - first)),
                         narrow((int64_t)data_first), narrow((int64_t)(data.size() - data_first)), index,
                         given});
        narrow((int64_t)reads.size());
        narrow((int64_t)data.size());
        return narrow((int64_t)nodes.size()) - 1;
    }
    void cut(int32_t count) {
        if (count >= size()) return;
        reads.resize((size_t)nodes[count].first);
        data.resize((size_t)nodes[count].data);
        nodes.resize((size_t)count);
    }
};
