#include "flat.h"

#include <algorithm>

namespace {

// The trips of one op in a loop: lanes that are taken, and where to look for room.
class Taken {
public:
    // The first lane of a node that may run from trip `ready` on; `last` gets its last trip.
    int64_t take(int32_t ready, int32_t lanes, int32_t width, int32_t& last) {
        if (lanes > width) return take_whole(ready, lanes, width, last);
        const int32_t trip = first_with_room(ready, width - lanes);
        const int64_t at = (int64_t)trip * width + taken_[trip];
        taken_[trip] += lanes;
        if (taken_[trip] == width) next_[trip] = trip + 1;
        last = trip;
        return at;
    }

private:
    std::vector<int32_t> taken_, next_;

    void grow(size_t trips) {
        while (taken_.size() < trips) {
            next_.push_back((int32_t)taken_.size());
            taken_.push_back(0);
        }
    }
    int32_t first_with_room(int32_t ready, int32_t most) {
        grow((size_t)ready + 1);
        for (int32_t trip = ready;; trip++) {
            int32_t found = trip;
            while (found < (int32_t)next_.size() && next_[found] != found) found = next_[found];
            for (int32_t passed = trip; passed < (int32_t)next_.size() && next_[passed] != passed;) {
                const int32_t then = next_[passed];
                next_[passed] = found;
                passed = then;
            }
            grow((size_t)found + 1);
            if (taken_[found] <= most) return found;
            trip = found;
        }
    }
    // More lanes than a trip has: several trips that nothing else is in.
    int64_t take_whole(int32_t ready, int32_t lanes, int32_t width, int32_t& last) {
        const int32_t trip = std::max(ready, (int32_t)taken_.size()), more = (lanes - 1) / width;
        grow((size_t)trip + more + 1);
        last = trip + more;
        for (int32_t t = trip; t < last; t++) {
            taken_[t] = width;
            next_[t] = t + 1;
        }
        taken_[last] = lanes - more * width;
        if (taken_[last] == width) next_[last] = last + 1;
        return (int64_t)trip * width;
    }
};

}  // namespace

std::string FlatGraph::check(const Facts& f) const {
    for (size_t op = 0; op < f.ops; op++) {
        if (f.component[op] < 0 || (size_t)f.component[op] >= f.components)
            return "an op is in no component";
        if (f.first[op] < 0 || f.first[op + 1] < f.first[op] || (size_t)f.first[op + 1] > f.leaves)
            return "leaves of an op are missing";
    }
    for (const Node& n : nodes) {
        if (n.op < 0 || (size_t)n.op >= f.ops) return "a node of an unknown op";
        if (n.count && f.first[n.op] == f.first[n.op + 1]) return "a node reads more than its op";
    }
    return "";
}

std::vector<int32_t> FlatGraph::edges(const Facts& f, uint8_t* known) const {
    std::vector<int32_t> found;
    for (const Node& n : nodes) {
        const int32_t first = f.first[n.op], last = f.first[n.op + 1] - 1;
        for (int32_t k = 0; k < n.count; k++) {
            const int32_t r = refs[n.reads + k];
            if (r == NOTHING) continue;
            const int32_t group = f.groups[std::min(first + k, last)];
            uint8_t& met = known[(size_t)group * f.ops + nodes[r].op];
            if (met) continue;
            met = 1;
            found.push_back(group);
            found.push_back(nodes[r].op);
        }
    }
    return found;
}

std::vector<std::vector<int32_t>> FlatGraph::levels(const Facts& f) const {
    std::vector<std::vector<int32_t>> of_op(f.ops), found(f.components);
    std::vector<int32_t> level(nodes.size());
    for (size_t n = 0; n < nodes.size(); n++) {
        const Node& node = nodes[n];
        const int32_t here = f.component[node.op];
        int32_t at = 0;
        if (f.cyclic[here])
            for (int32_t k = 0; k < node.count; k++) {
                const int32_t r = refs[node.reads + k];
                if (r == NOTHING || f.component[nodes[r].op] != here) continue;
                at = std::max(at, level[r] + (nodes[r].op >= node.op));
            }
        level[n] = at;
        std::vector<int32_t>&mine = of_op[node.op], &all = found[here];
        if (mine.size() <= (size_t)at) mine.resize(at + 1);
        if (all.size() <= (size_t)at) all.resize(at + 1);
        mine[at] += node.lanes;
        all[at] = std::max(all[at], mine[at]);
    }
    return found;
}

std::vector<int32_t> FlatGraph::place(const Facts& f, const std::vector<int32_t>& widths) {
    std::vector<int32_t> trips(f.components), last(nodes.size());
    std::vector<Taken> taken(f.ops);
    std::vector<int64_t> end(f.ops);  // of ops that run once: the lanes taken
    for (size_t n = 0; n < nodes.size(); n++) {
        Node& node = nodes[n];
        const int32_t here = f.component[node.op], width = widths[here];
        if (f.cyclic[here]) {
            int32_t ready = 0;
            for (int32_t k = 0; k < node.count; k++) {
                const int32_t r = refs[node.reads + k];
                if (r == NOTHING || f.component[nodes[r].op] != here) continue;
                ready = std::max(ready, last[r] + (nodes[r].op >= node.op));
            }
            node.position = (int32_t)taken[node.op].take(ready, node.lanes, width, last[n]);
            trips[here] = std::max(trips[here], last[n] + 1);
        } else {
            node.position = (int32_t)end[node.op];
            end[node.op] += node.lanes;
            trips[here] = std::max(trips[here], (int32_t)((end[node.op] + width - 1) / width));
        }
    }
    return trips;
}

std::vector<int32_t> FlatGraph::unaligned(const Facts& f) const {
    std::vector<uint8_t> met(f.leaves);
    std::vector<int32_t> found;
    for (const Node& n : nodes) {
        const int32_t first = f.first[n.op], leaves = std::min(n.count, f.first[n.op + 1] - first);
        for (int32_t k = 0; k < leaves; k++) {
            if (!f.aligned[first + k] || met[first + k]) continue;
            const int32_t r = refs[n.reads + k];
            if (r != NOTHING && nodes[r].position == n.position && nodes[r].lanes == n.lanes) continue;
            met[first + k] = 1;
            found.push_back(n.op);
            found.push_back(k);
        }
    }
    return found;
}

bool FlatGraph::write(const Addresses& a, const int32_t* bases, int32_t* buffer, size_t size) {
    for (Node& n : nodes) n.row = bases[n.op] + n.position;
    const auto column = [&](int32_t start, const Node& n) -> int32_t* {
        const int64_t at = (int64_t)start + n.position;
        return at < 0 || at + n.lanes > (int64_t)size ? nullptr : buffer + at;
    };
    for (const Node& n : nodes) {
        int32_t* valid = column(a.valid[n.op], n);
        if (!valid) return false;
        std::fill(valid, valid + n.lanes, 1);
        const int32_t first = a.first[n.op];
        if (!n.count) continue;
        if (first + (n.copies ? 1 : n.count) > a.first[n.op + 1]) return false;
        if (n.copies) {
            int32_t* to = column(a.leaves[first], n);
            if (!to) return false;
            if (n.chosen >= 0) {
                for (int32_t e = 0; e < n.lanes; e++)
                    *to++ = nodes[refs[n.reads]].row + elements[n.chosen + e];
                continue;
            }
            for (int32_t k = 0; k < n.count; k++) {
                const Node& x = nodes[refs[n.reads + k]];
                for (int32_t e = 0; e < x.lanes; e++) *to++ = x.row + e;
            }
            continue;
        }
        for (int32_t k = 0; k < n.count; k++) {
            if (a.leaves[first + k] < 0) continue;
            int32_t* to = column(a.leaves[first + k], n);
            if (!to) return false;
            const int32_t r = refs[n.reads + k];
            if (r == NOTHING) {
                std::fill(to, to + n.lanes, 0);
                continue;
            }
            const Node& x = nodes[r];
            const int32_t row = x.row + (n.chosen >= 0 ? elements[n.chosen + k] : 0);
            const int32_t step = n.chosen < 0 && x.lanes > 1;
            for (int32_t e = 0; e < n.lanes; e++) to[e] = row + e * step;
        }
    }
    return true;
}

std::vector<int32_t> FlatGraph::unused(int32_t root) const {
    std::vector<uint8_t> under(nodes.size());
    under[root] = 1;
    for (int32_t n = root; n >= 0; n--) {
        if (!under[n]) continue;
        for (int32_t k = 0; k < nodes[n].count; k++) {
            const int32_t r = refs[nodes[n].reads + k];
            if (r != NOTHING) under[r] = 1;
        }
    }
    std::vector<int32_t> found;
    for (size_t n = 0; n < nodes.size(); n++)
        if (!under[n]) found.push_back((int32_t)n);
    return found;
}

bool FlatGraph::clear(const std::vector<int32_t>& which, const Addresses& a, int32_t* buffer,
                      size_t size) const {
    const auto empty = [&](int32_t start, const Node& n) {
        const int64_t at = (int64_t)start + n.position;
        if (at < 0 || at + n.lanes > (int64_t)size) return false;
        std::fill(buffer + at, buffer + at + n.lanes, 0);
        return true;
    };
    for (int32_t number : which) {
        const Node& n = nodes[number];
        if (!empty(a.valid[n.op], n)) return false;
        for (int32_t c = a.first[n.op]; c < a.first[n.op + 1]; c++)
            if (a.leaves[c] >= 0 && !empty(a.leaves[c], n)) return false;
    }
    return true;
}
