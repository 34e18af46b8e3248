#include "graph.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "kernels.h"

constexpr int32_t WIDE = 32;  // lanes, of which a product of more gains nothing

namespace {

// Adds the time from here to the end of a scope to a fused op, if there is one.
class Watch {
public:
    explicit Watch(Use* use) : use_(use) {
        if (use) start_ = std::chrono::steady_clock::now();
    }
    Watch(const Watch&) = delete;
    ~Watch() {
        if (use_)
            use_->seconds +=
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

private:
    Use* use_;
    std::chrono::steady_clock::time_point start_;
};

}  // namespace

size_t Graph::memory() const {
    const size_t rows = values_.words() + gradients_.words() + scratch_.words() + hoisted_.words();
    return sizeof(float) * rows + sizeof(Node) * nodes.capacity();
}

float* Graph::zeros(size_t count) {
    if (zeros_.size() < count) {
        // rows that were handed out are read only while one group is computed
        zeros_.assign(count, 0.f);
    }
    return zeros_.data();
}

void Graph::external(int32_t number, const float* rows) {
    Node& c = nodes[number];
    const size_t size = (size_t)c.lanes * uses[c.use].program->size;
    c.value = values_.take(size);
    memcpy(c.value, rows, 4 * size);
    c.external = true;
    fetched_.push_back(number);
}

void Graph::arrange(int32_t start) {
    const int32_t stop = (int32_t)nodes.size(), count = stop - start;
    components_.find(nodes, refs, start, (int32_t)uses.size());
    // by component, there by level, and there by fused op
    std::vector<Recurrence>& found = recurrences_;
    found.assign(components_.count(), {0, 0, 0});
    kind_.assign(uses.size(), -1);
    level_.resize(stop);
    for (int32_t n = start; n < stop; n++) {
        const Node& c = nodes[n];
        const int32_t here = components_.of(c.use);
        int32_t at = 0;
        for (int32_t k = 0; k < c.count; k++) {
            const int32_t r = refs[c.reads + k];
            if (r >= start && components_.of(nodes[r].use) == here) at = std::max(at, level_[r] + 1);
        }
        level_[n] = at;
        found[here].levels = std::max(found[here].levels, at + 1);
        if (kind_[c.use] < 0) kind_[c.use] = found[here].kinds++;
    }
    int64_t keys = 0;
    for (Recurrence& x : found) x.first = keys, keys += (int64_t)x.levels * x.kinds;
    auto key = [&](int32_t n) {
        const Recurrence& x = found[components_.of(nodes[n].use)];
        return x.first + (int64_t)level_[n] * x.kinds + kind_[nodes[n].use];
    };
    const size_t first = order.size();
    order.resize(first + count);
    int32_t* sorted = order.data() + first;
    if (keys <= 8 * (int64_t)count + 1024) {
        std::vector<int32_t> starts((size_t)keys + 1, 0);
        for (int32_t n = start; n < stop; n++) starts[key(n) + 1]++;
        for (size_t k = 1; k < starts.size(); k++) starts[k] += starts[k - 1];
        for (int32_t n = start; n < stop; n++) sorted[starts[key(n)]++] = n;
    } else {
        for (int32_t n = 0; n < count; n++) sorted[n] = start + n;
        std::stable_sort(sorted, sorted + count, [&](int32_t a, int32_t b) { return key(a) < key(b); });
    }
    fresh_ = groups.size();
    const int32_t earlier = groups.empty() ? 0 : groups.back().component + 1;
    for (int32_t k = 0; k < count;) {
        const int64_t here = key(sorted[k]);
        Group g{nodes[sorted[k]].use,
                (int32_t)first + k,
                0,
                0,
                nullptr,
                nullptr,
                nullptr,
                0,
                0,
                earlier + components_.of(nodes[sorted[k]].use),
                -1,
                0};
        for (; k < count && key(sorted[k]) == here; k++, g.count++) {
            Node& c = nodes[sorted[k]];
            c.group = (int32_t)groups.size(), c.lane = g.lanes;
            g.lanes = narrow((int64_t)g.lanes + c.lanes);
        }
        const Program& p = *uses[g.use].program;
        g.value = values_.take((size_t)g.lanes * p.size);
        for (int32_t i = 0; i < g.count; i++) {
            Node& c = nodes[order[g.first + i]];
            c.value = g.value + (size_t)c.lane * p.size;
        }
        groups.push_back(g);
    }
    arrange_series(fresh_, start);
}

// Of the groups from `first` on.
void Graph::arrange_series(size_t first, int32_t start) {
    const size_t known = series_.size();
    series_of_.assign(uses.size(), -1);
    for (size_t k = first; k < groups.size(); k++) {
        Group& g = groups[k];
        const int32_t here = components_.of(g.use);
        if (recurrences_[here].levels < 2 || !uses[g.use].program->hoisted) continue;
        int32_t& number = series_of_[g.use];
        if (number < 0)
            number = (int32_t)series_.size(), series_.push_back({g.use, (int32_t)k, 0, 0, ~0u, nullptr});
        Series& s = series_[number];
        g.series = number, g.before = s.lanes;
        s.last = (int32_t)k, s.lanes = narrow((int64_t)s.lanes + g.lanes);
        for (int32_t i = 0; i < g.count; i++) {
            const Node& c = nodes[order[g.first + i]];
            for (int32_t j = 0; j < std::min(c.count, HOISTABLE); j++) {
                const int32_t r = refs[c.reads + j];
                if (r >= start && components_.of(nodes[r].use) == here) s.outside &= ~(1u << j);
            }
        }
    }
    for (size_t n = known; n < series_.size(); n++)
        if (series_[n].lanes >= WIDE * recurrences_[components_.of(series_[n].use)].levels)
            series_[n].outside = 0;
}

void Graph::compute() {
    hoisted_.rewind({});
    for (size_t k = fresh_; k < groups.size(); k++) {
        Group& g = groups[k];
        Use& u = uses[g.use];
        const Watch watch(timed ? &u : nullptr);
        if (timed) u.groups++, u.rows += g.lanes;
        if (g.series >= 0 && series_[g.series].first == (int32_t)k) hoist(series_[g.series]);
        forward(g);
    }
}

void Graph::forward(Group& g) {
    Use& u = uses[g.use];
    const Program& p = *u.program;
    const size_t size = p.size;
    if (p.form != Form::REDUCE) written_ += (double)g.lanes * size;
    switch (p.form) {
        case Form::MAP: return map(g, u);
        case Form::INPUT:
        case Form::LOOKUP: return;  // their rows came with them
        case Form::REDUCE:
            for (int32_t i = 0; i < g.count; i++) {
                const Node& c = nodes[order[g.first + i]];
                for (int32_t l = 0; l < c.lanes; l++) {
                    float* to = c.value + l * size;
                    bool first = true;
                    for (int32_t k = 0; k < c.count; k++) {
                        const int32_t r = refs[c.reads + k];
                        if (r == NOTHING) continue;
                        const float* from = row(r, c.data >= 0 ? words[c.data + k] : l);
                        if (first)
                            memcpy(to, from, 4 * size);
                        else
                            kernels().add(to, from, (long)size);
                        first = false;
                    }
                    if (first) std::fill(to, to + size, 0.f);
                    written_ += (double)size * c.count;
                }
            }
            return;
        case Form::GATHER:
            for (int32_t i = 0; i < g.count; i++) {
                const Node& c = nodes[order[g.first + i]];
                float* to = c.value;
                if (c.data >= 0) {  // chosen elements of one node
                    for (int32_t l = 0; l < c.lanes; l++, to += size)
                        memcpy(to, row(refs[c.reads], words[c.data + l]), 4 * size);
                } else {  // all elements of several
                    for (int32_t k = 0; k < c.count; k++) {
                        const Node& x = nodes[refs[c.reads + k]];
                        memcpy(to, x.value, 4 * size * x.lanes);
                        to += size * x.lanes;
                    }
                }
            }
            return;
        case Form::JOIN: {  // blocks of a row go to every `pieces`th place
            const size_t part = size / p.pieces, block = part / p.outer;
            for (int32_t i = 0; i < g.count; i++) {
                const Node& c = nodes[order[g.first + i]];
                for (int32_t l = 0; l < c.lanes; l++) {
                    float* to = c.value + l * size;
                    for (int32_t k = 0; k < p.pieces; k++) {
                        const int32_t r = k < c.count ? refs[c.reads + k] : NOTHING;
                        const float* from = r == NOTHING ? zeros(part) : row(r, l);
                        for (int32_t o = 0; o < p.outer; o++)
                            memcpy(to + (o * p.pieces + k) * block, from + o * block, 4 * block);
                    }
                }
            }
            return;
        }
    }
}

// For lanes of a group, or of several if there is none.
Frame& Graph::frame(const Use& u, long lanes, const Group* g) {
    Frame& f = frame_;
    const Program& p = *u.program;
    const Series* s = g && g->series >= 0 ? &series_[g->series] : nullptr;
    scratch_.rewind({});
    f.base.resize(p.slots()), f.strides.resize(p.sizes.size());
    f.base[CONSTANT] = const_cast<float*>(p.constants.data());
    f.base[TEMPORARY] = scratch_.take((size_t)lanes * p.temporary);
    f.base[SAVED] = g ? g->saved : nullptr, f.base[VALUE] = g ? g->value : nullptr,
    f.base[COTANGENT] = g ? g->gradient : nullptr;
    if (s && s->outside)
        f.base[HOISTED] = s->hoisted, f.first_hoisted = g->before, f.room_hoisted = s->lanes,
        f.outside = s->outside;
    else
        f.base[HOISTED] = scratch_.take((size_t)lanes * p.hoisted), f.first_hoisted = 0,
        f.room_hoisted = lanes, f.outside = 0;
    for (size_t k = 0; k < u.weights.size(); k++) f.base[FIRST + k] = const_cast<float*>(u.weights[k]);
    f.lanes = f.width = lanes, f.lane = 0, f.room = g ? g->lanes : lanes, f.first = 0, f.apart = false;
    return f;
}

// Note the rows of an operand, lane by lane, after those of other groups; null: zeros.
void Graph::collect(const Group& g, size_t operand) {
    for (int32_t i = 0; i < g.count; i++) {
        const Node& c = nodes[order[g.first + i]];
        const int32_t r = refs[c.reads + operand];
        for (int32_t l = 0; l < c.lanes; l++) rows_.push_back(r == NOTHING ? nullptr : row(r, l));
    }
}

// The rows that were noted, where they are if these lie evenly apart, else copied.
Graph::Operands Graph::side_by_side(long size, Arena& arena) {
    const bool blank = std::find(rows_.begin(), rows_.end(), nullptr) != rows_.end();
    if (blank) {
        float* none = arena.take(size);  // backward reads it, too
        std::fill(none, none + size, 0.f);
        std::replace(rows_.begin(), rows_.end(), (float*)nullptr, none);
    }
    float* base = rows_[0];
    long stride = rows_.size() > 1 ? rows_[1] - base : 0;
    bool even = stride == 0 || stride >= size;
    for (size_t l = 2; even && l < rows_.size(); l++) even = rows_[l] == base + (long)l * stride;
    if (!even) {
        base = arena.take(rows_.size() * size), stride = size;
        for (size_t l = 0; l < rows_.size(); l++) memcpy(base + l * size, rows_[l], 4 * size);
        written_ += (double)rows_.size() * size;
    }
    return {base, stride};
}

// Make the products of all groups that need nothing of the recurrence.
void Graph::hoist(Series& s) {
    if (!s.outside) return;
    const Use& u = uses[s.use];
    const Program& p = *u.program;
    s.hoisted = hoisted_.take((size_t)s.lanes * p.hoisted);
    Frame& f = frame(u, 0, nullptr);
    f.base[HOISTED] = s.hoisted, f.room_hoisted = f.lanes = s.lanes;
    f.outside = s.outside, f.apart = true;
    for (const Instruction& q : p.forward) {
        const int j = hoisted_operand(q.flags);
        if (!(q.flags & HOIST) || !(s.outside >> j & 1)) continue;
        rows_.clear();
        for (int32_t k = s.first; k <= s.last; k++)
            if (groups[k].series == &s - series_.data()) collect(groups[k], j);
        const Operands x = side_by_side(p.sizes[j], hoisted_);
        f.base[p.first_operand() + j] = x.base, f.strides[j] = x.stride;
    }
    run(p.forward, p, f);
}

void Graph::map(Group& g, Use& u) {
    const Program& p = *u.program;
    g.operands = (int32_t)operands_.size(), g.data = (int32_t)data_.size();
    for (size_t j = 0; j < p.sizes.size(); j++) {
        rows_.clear();
        collect(g, j);
        operands_.push_back(side_by_side(p.sizes[j], values_));
    }
    int32_t at = 0;
    for (const char type : p.data) {
        const int32_t width = type == 'k' ? 2 : 1;
        float* to = values_.take((size_t)g.lanes * width);
        data_.push_back(to);
        for (int32_t i = 0; i < g.count; i++) {
            const Node& c = nodes[order[g.first + i]];
            memcpy(to, words.data() + c.data + (size_t)at * c.lanes, 4 * (size_t)width * c.lanes);
            to += width * c.lanes;
        }
        at += width;
    }
    g.saved = values_.take((size_t)g.lanes * p.saved);
    Frame& f = frame(u, g.lanes, &g);
    for (size_t j = 0; j < p.sizes.size(); j++)
        f.base[p.first_operand() + j] = operands_[g.operands + j].base,
                                   f.strides[j] = operands_[g.operands + j].stride;
    for (size_t j = 0; j < p.data.size(); j++) f.base[p.first_datum() + j] = data_[g.data + j];
    run(p.forward, p, f);
    written_ += p.written * g.lanes;
}

float* Graph::reach(int32_t number) {
    Node& c = nodes[number];
    if (c.external) return nullptr;
    Group& g = groups[c.group];
    const size_t size = uses[c.use].program->size;
    if (!g.gradient) {
        g.gradient = gradients_.take((size_t)g.lanes * size);
        std::fill(g.gradient, g.gradient + g.lanes * size, 0.f);
        written_ += (double)g.lanes * size;
    }
    c.reached = true;
    return g.gradient + (size_t)c.lane * size;
}

float* Graph::gradient_of(int32_t number) {
    const Node& c = nodes[number];
    if (c.external || !c.reached) return nullptr;
    return groups[c.group].gradient + (size_t)c.lane * uses[c.use].program->size;
}

void Graph::backward(const std::vector<Root>& roots, bool full,
                     const std::vector<std::vector<float*>>& gradients) {
    gradients_.rewind({});
    for (Group& g : groups) g.gradient = nullptr;
    for (Series& s : series_) s.hoisted = nullptr;
    for (Node& c : nodes) c.reached = false;
    std::vector<size_t> lanes(uses.size(), 0);
    for (const Group& g : groups) lanes[g.use] += g.lanes;
    for (size_t n = 0; n < uses.size(); n++) {
        uses[n].asides.clear();
        for (const auto& [rows, columns] : uses[n].program->asides)
            uses[n].asides.push_back(
                {gradients_.take(lanes[n] * rows), gradients_.take(lanes[n] * columns), 0});
    }
    // what a gradient is asked of: all that something learned is part of
    for (size_t n = 0; n < nodes.size(); n++) {
        Node& c = nodes[n];
        if (c.use < 0) continue;  // nobody reads it
        c.needed = full || uses[c.use].program->weighted;
        for (int32_t k = 0; !c.needed && k < c.count; k++) {
            const int32_t r = refs[c.reads + k];
            c.needed = r != NOTHING && nodes[r].needed;
        }
    }
    size_t last = 0;
    for (const Root& r : roots) {
        kernels().add(reach(r.number), r.gradient.data(), (long)r.gradient.size());
        last = std::max(last, (size_t)nodes[r.number].group + 1);
    }
    for (size_t k = last; k--;) {
        const Group& g = groups[k];
        const Watch watch(timed ? &uses[g.use] : nullptr);
        if (g.gradient) backward(g, gradients[g.use]);
        if (g.series >= 0 && series_[g.series].first == (int32_t)k) hoist_back(g.series);
    }
    for (size_t n = 0; n < uses.size(); n++) {
        const Program& p = *uses[n].program;
        const Watch watch(timed ? &uses[n] : nullptr);
        for (const Instruction& q : p.backward) {
            if (q.op != PUT_ASIDE) continue;
            const Aside& a = uses[n].asides[q.extra];
            float* to = gradients[n][q.d.slot - p.first_gradient()];
            if (a.rows) product(to, q.m, a.a, 1, q.n, a.b, q.m, 1, q.n, a.rows, q.m, true);
        }
    }
}

void Graph::backward(const Group& g, const std::vector<float*>& gradients) {
    const Program& p = *uses[g.use].program;
    const size_t size = p.size;
    if (p.form == Form::INPUT || p.form == Form::LOOKUP) return;
    if (p.form == Form::MAP) {  // the lanes that were reached, as far as they lie side by side
        for (int32_t i = 0; i < g.count;) {
            const int32_t n = order[g.first + i];
            if (n == DEAD || !nodes[n].reached || !nodes[n].needed) {
                i++;
                continue;
            }
            int32_t end = i;
            long lanes = 0;
            for (; end < g.count; end++) {
                const int32_t m = order[g.first + end];
                if (m == DEAD || !nodes[m].reached || !nodes[m].needed) break;
                lanes += nodes[m].lanes;
            }
            run_back(g, gradients, i, end, nodes[n].lane, lanes);
            i = end;
        }
        return;
    }
    for (int32_t i = 0; i < g.count; i++) {
        const int32_t n = order[g.first + i];
        if (n == DEAD || !nodes[n].reached || !nodes[n].needed) continue;
        const Node& c = nodes[n];
        const float* from = g.gradient + (size_t)c.lane * size;
        auto to = [&](int32_t r, int32_t lane) -> float* {
            if (r == NOTHING || !nodes[r].needed) return nullptr;
            float* found = reach(r);
            written_ += (double)size;
            return found
                       ? found + (size_t)(nodes[r].lanes == 1 ? 0 : lane) * uses[nodes[r].use].program->size
                       : nullptr;
        };
        if (p.form == Form::REDUCE) {
            for (int32_t l = 0; l < c.lanes; l++)
                for (int32_t k = 0; k < c.count; k++)
                    if (float* t = to(refs[c.reads + k], c.data >= 0 ? words[c.data + k] : l))
                        kernels().add(t, from + l * size, (long)size);
        } else if (p.form == Form::GATHER) {
            if (c.data >= 0) {
                for (int32_t l = 0; l < c.lanes; l++)
                    if (float* t = to(refs[c.reads], words[c.data + l]))
                        kernels().add(t, from + l * size, (long)size);
            } else {
                for (int32_t k = 0; k < c.count; k++) {
                    const int32_t r = refs[c.reads + k], lanes = nodes[r].lanes;
                    if (float* t = to(r, 0)) kernels().add(t, from, (long)size * lanes);
                    from += size * lanes;
                }
            }
        } else {  // JOIN
            const size_t part = size / p.pieces, block = part / p.outer;
            for (int32_t l = 0; l < c.lanes; l++)
                for (int32_t k = 0; k < c.count; k++)
                    if (float* t = to(refs[c.reads + k], l))
                        for (int32_t o = 0; o < p.outer; o++)
                            kernels().add(t + o * block, from + l * size + (o * p.pieces + k) * block,
                                          (long)block);
        }
    }
}

// Where the gradient of an operand goes, by lane of the group, from `first` on; whether it
// goes anywhere. Lanes of nodes that are gone are left as they are.
bool Graph::aim(const Group& g, int32_t from, int32_t to, size_t operand, long first, float** targets) {
    bool any = false;
    for (int32_t i = from; i < to; i++) {
        const int32_t n = order[g.first + i];
        if (n == DEAD || !nodes[n].reached || !nodes[n].needed) continue;
        const Node& c = nodes[n];
        const int32_t r = refs[c.reads + operand];
        float* found = r == NOTHING || !nodes[r].needed ? nullptr : reach(r);
        const size_t step = r == NOTHING || nodes[r].lanes == 1 ? 0 : uses[g.use].program->sizes[operand];
        for (int32_t l = 0; l < c.lanes; l++)
            targets[c.lane - first + l] = found ? found + l * step : nullptr;
        any = any || found;
    }
    return any;
}

void Graph::run_back(const Group& g, const std::vector<float*>& gradients, int32_t from, int32_t to,
                     long first, long lanes) {
    Use& u = uses[g.use];
    const Program& p = *u.program;
    if (g.series >= 0 && series_[g.series].outside && !series_[g.series].hoisted) {
        Series& s = series_[g.series];
        const size_t words = (size_t)s.lanes * p.hoisted;
        s.hoisted = gradients_.take(words);
        std::fill(s.hoisted, s.hoisted + words, 0.f);  // lanes that nothing reaches
    }
    Frame& f = frame(u, lanes, &g);
    f.first = first, f.first_hoisted += f.outside ? first : 0;
    const size_t count = p.sizes.size();
    if (targets_.size() < count) targets_.resize(count);
    f.targets.assign(count, nullptr);
    for (size_t j = 0; j < count; j++) {
        targets_[j].resize(lanes);
        if (aim(g, from, to, j, first, targets_[j].data())) f.targets[j] = targets_[j].data();
        const Operands& x = operands_[g.operands + j];
        f.base[p.first_operand() + j] = x.base + first * x.stride, f.strides[j] = x.stride;
    }
    for (size_t j = 0; j < p.data.size(); j++)
        f.base[p.first_datum() + j] = data_[g.data + j] + first * (p.data[j] == 'k' ? 2 : 1);
    for (size_t j = 0; j < gradients.size(); j++) f.base[p.first_gradient() + j] = gradients[j];
    f.asides = u.asides.data();
    run(p.backward, p, f);
    written_ += p.written_back * lanes;
}

// Add to the gradients of what comes from outside a recurrence, for all groups at once.
void Graph::hoist_back(int32_t number) {
    const Series& s = series_[number];
    if (!s.hoisted) return;
    const Use& u = uses[s.use];
    const Program& p = *u.program;
    std::vector<std::vector<float*>> targets(p.sizes.size());
    for (size_t j = 0; j < std::min(targets.size(), (size_t)HOISTABLE); j++) {
        if (!(s.outside >> j & 1)) continue;
        targets[j].assign(s.lanes, nullptr);
        for (int32_t k = s.first; k <= s.last; k++) {
            const Group& g = groups[k];
            if (g.series == number) aim(g, 0, g.count, j, 0, targets[j].data() + g.before);
        }
    }
    for (long first = 0; first < s.lanes; first += WIDE) {
        Frame& f = frame(u, std::min((long)WIDE, s.lanes - first), nullptr);
        f.base[HOISTED] = s.hoisted, f.first_hoisted = first, f.room_hoisted = s.lanes;
        f.outside = s.outside, f.apart = true;
        f.targets.assign(p.sizes.size(), nullptr);
        for (size_t j = 0; j < targets.size(); j++)
            if (!targets[j].empty()) f.targets[j] = targets[j].data() + first;
        run(p.backward, p, f);
    }
}

Graph::Mark Graph::mark() const {
    return {nodes.size(),     refs.size(),  words.size(),    groups.size(),  order.size(),
            operands_.size(), data_.size(), fetched_.size(), series_.size(), values_.here()};
}

void Graph::rewind(const Mark& to) {
    nodes.resize(std::min(to.nodes, nodes.size()));
    for (size_t k = to.fetched; k < fetched_.size(); k++)
        if ((size_t)fetched_[k] < nodes.size()) nodes[fetched_[k]] = EXTERNAL;
    refs.resize(to.refs), words.resize(to.words), groups.resize(to.groups), order.resize(to.order);
    operands_.resize(to.operands), data_.resize(to.data), fetched_.resize(to.fetched),
        series_.resize(to.series);
    values_.rewind(to.values);
}

void Graph::cut(int32_t count) {
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
