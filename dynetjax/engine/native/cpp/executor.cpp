#include "executor.h"

#include <algorithm>

size_t Executor::memory() const {
    return sizeof(float) * (forward.memory() + backward.memory()) + sizeof(Node) * nodes.capacity();
}

Executor::Mark Executor::mark() const {
    return {nodes.size(), refs.size(),   words.size(),  groups.size(),
            order.size(), series.size(), forward.mark()};
}

void Executor::rewind(const Mark& to) {
    nodes.resize(std::min(to.nodes, nodes.size()));
    refs.resize(to.refs);
    words.resize(to.words);
    groups.resize(to.groups);
    order.resize(to.order);
    series.resize(to.series);
    forward.rewind(to.rows);
}

void Executor::cut(int32_t count) {
    while (!marks_.empty() && marks_.back().nodes >= (size_t)count) {
        rewind(marks_.back());
        marks_.pop_back();
    }
    if (nodes.size() <= (size_t)count) return;
    // only what was computed last can have nodes on both sides
    for (size_t k = marks_.empty() ? 0 : marks_.back().order; k < order.size(); k++)
        if (order[k] >= count) order[k] = DEAD;
    nodes.resize(count);
}
