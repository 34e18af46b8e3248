// Which fused ops recur: the strongly connected components of what reads what.
#pragma once

#include <cstdint>
#include <vector>

struct Node;

class Components {
public:
    // Of the fused ops of the nodes from `start` on.
    void find(const std::vector<Node>& nodes, const std::vector<int32_t>& refs, int32_t start, int32_t uses);
    // A component has a higher number than all that it reads.
    int32_t of(int32_t use) const { return number_[use]; }
    int32_t count() const { return count_; }

private:
    struct Visit {  // of a fused op: which node of it, and which of its operands, is next
        int32_t use, node, operand;
    };
    std::vector<int32_t> number_, met_, low_, begin_, nodes_, open_;
    std::vector<Visit> path_;
    int32_t count_ = 0, seen_ = 0;

    void enter(int32_t use);
    void leave(int32_t use);
};
