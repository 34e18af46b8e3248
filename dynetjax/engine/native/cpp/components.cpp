#include "components.h"

#include <algorithm>

#include "work.h"

namespace {
constexpr int32_t NONE = -1;
}

// Tarjan's algorithm, without recursion: a program may have any number of fused ops.
void Components::find(const std::vector<Node>& nodes, const std::vector<int32_t>& refs, int32_t start,
                      int32_t uses) {
    const int32_t stop = (int32_t)nodes.size();
    begin_.assign(uses + 1, 0);
    for (int32_t n = start; n < stop; n++) begin_[nodes[n].use + 1]++;
    for (int32_t u = 0; u < uses; u++) begin_[u + 1] += begin_[u];
    nodes_.resize(stop - start);
    low_.assign(begin_.begin(), begin_.end() - 1);  // for now, where the next node goes
    for (int32_t n = start; n < stop; n++) nodes_[low_[nodes[n].use]++] = n;
    number_.assign(uses, NONE);
    met_.assign(uses, NONE);
    count_ = seen_ = 0;
    for (int32_t root = 0; root < uses; root++) {
        if (met_[root] != NONE || begin_[root] == begin_[root + 1]) continue;
        enter(root);
        while (!path_.empty()) {
            Visit& at = path_.back();
            const int32_t use = at.use;
            if (at.node == begin_[use + 1]) {
                leave(use);
                continue;
            }
            const Node& c = nodes[nodes_[at.node]];
            if (at.operand == c.count) {
                at.node++;
                at.operand = 0;
                continue;
            }
            const int32_t read = refs[c.reads + at.operand++];
            if (read < start) continue;
            const int32_t other = nodes[read].use;
            if (met_[other] == NONE)
                enter(other);
            else if (number_[other] == NONE)
                low_[use] = std::min(low_[use], met_[other]);
        }
    }
}

void Components::enter(int32_t use) {
    met_[use] = low_[use] = seen_++;
    open_.push_back(use);
    path_.push_back({use, begin_[use], 0});
}

void Components::leave(int32_t use) {
    path_.pop_back();
    if (!path_.empty()) low_[path_.back().use] = std::min(low_[path_.back().use], low_[use]);
    if (low_[use] != met_[use]) return;
    for (int32_t last = NONE; last != use; open_.pop_back()) number_[last = open_.back()] = count_;
    count_++;
}
