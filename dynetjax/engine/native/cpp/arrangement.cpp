#include "arrangement.h"

#include <algorithm>

void Arrangement::arrange(Work& work, int32_t start) {
    const int32_t stop = (int32_t)work.nodes.size(), count = stop - start;
    components_.find(work.nodes, work.refs, start, (int32_t)work.uses.size());
    // by component, there by level, and there by fused op
    std::vector<Recurrence>& found = recurrences_;
    found.assign(components_.count(), {0, 0, 0});
    kind_.assign(work.uses.size(), -1);
    level_.resize(stop);
    for (int32_t n = start; n < stop; n++) {
        const Node& c = work.nodes[n];
        const int32_t here = components_.of(c.use);
        int32_t at = 0;
        for (int32_t k = 0; k < c.count; k++) {
            const int32_t r = work.refs[c.reads + k];
            if (r >= start && components_.of(work.nodes[r].use) == here) at = std::max(at, level_[r] + 1);
        }
        level_[n] = at;
        found[here].levels = std::max(found[here].levels, at + 1);
        if (kind_[c.use] < 0) kind_[c.use] = found[here].kinds++;
    }
    int64_t keys = 0;
    for (Recurrence& x : found) {
        x.first = keys;
        keys += (int64_t)x.levels * x.kinds;
    }
    auto key = [&](int32_t n) {
        const Recurrence& x = found[components_.of(work.nodes[n].use)];
        return x.first + (int64_t)level_[n] * x.kinds + kind_[work.nodes[n].use];
    };
    const size_t first = work.order.size();
    work.order.resize(first + count);
    int32_t* sorted = work.order.data() + first;
    if (keys <= 8 * (int64_t)count + 1024) {
        std::vector<int32_t> starts((size_t)keys + 1, 0);
        for (int32_t n = start; n < stop; n++) starts[key(n) + 1]++;
        for (size_t k = 1; k < starts.size(); k++) starts[k] += starts[k - 1];
        for (int32_t n = start; n < stop; n++) sorted[starts[key(n)]++] = n;
    } else {
        for (int32_t n = 0; n < count; n++) sorted[n] = start + n;
        std::stable_sort(sorted, sorted + count, [&](int32_t a, int32_t b) { return key(a) < key(b); });
    }
    work.fresh = work.groups.size();
    const int32_t earlier = work.groups.empty() ? 0 : work.groups.back().component + 1;
    for (int32_t k = 0; k < count;) {
        const int64_t here = key(sorted[k]);
        Group g{work.nodes[sorted[k]].use,
                (int32_t)first + k,
                0,
                0,
                nullptr,
                nullptr,
                nullptr,
                0,
                0,
                earlier + components_.of(work.nodes[sorted[k]].use),
                -1,
                0};
        for (; k < count && key(sorted[k]) == here; k++, g.count++) {
            Node& c = work.nodes[sorted[k]];
            c.group = (int32_t)work.groups.size();
            c.lane = g.lanes;
            g.lanes = narrow((int64_t)g.lanes + c.lanes);
        }
        work.groups.push_back(g);
    }
    arrange_series(work, start);
}

// Of the groups that are fresh.
void Arrangement::arrange_series(Work& work, int32_t start) {
    const size_t known = work.series.size();
    series_of_.assign(work.uses.size(), -1);
    for (size_t k = work.fresh; k < work.groups.size(); k++) {
        Group& g = work.groups[k];
        const int32_t here = components_.of(g.use);
        if (recurrences_[here].levels < 2 || !work.uses[g.use].program->hoisted) continue;
        int32_t& number = series_of_[g.use];
        if (number < 0)
            number = (int32_t)work.series.size(),
            work.series.push_back({g.use, (int32_t)k, 0, 0, ~0u, nullptr});
        Series& s = work.series[number];
        g.series = number;
        g.before = s.lanes;
        s.last = (int32_t)k;
        s.lanes = narrow((int64_t)s.lanes + g.lanes);
        for (int32_t i = 0; i < g.count; i++) {
            const Node& c = work.nodes[work.order[g.first + i]];
            for (int32_t j = 0; j < std::min(c.count, HOISTABLE); j++) {
                const int32_t r = work.refs[c.reads + j];
                if (r >= start && components_.of(work.nodes[r].use) == here) s.outside &= ~(1u << j);
            }
        }
    }
    for (size_t n = known; n < work.series.size(); n++)
        if (work.series[n].lanes >= WIDE * recurrences_[components_.of(work.series[n].use)].levels)
            work.series[n].outside = 0;
}
