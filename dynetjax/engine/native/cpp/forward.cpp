#include "forward.h"

#include <algorithm>
#include <cstring>

#include "kernels.h"

void Forward::external(int32_t number, const float* rows) {
    Node& c = work_.nodes[number];
    const size_t size = (size_t)c.lanes * work_.program(c).size;
    c.value = values_.take(size);
    memcpy(c.value, rows, 4 * size);
    c.external = true;
    fetched_.push_back(number);
}

void Forward::place() {
    for (size_t k = work_.fresh; k < work_.groups.size(); k++) {
        Group& g = work_.groups[k];
        const size_t size = work_.uses[g.use].program->size;
        g.value = values_.take((size_t)g.lanes * size);
        for (int32_t i = 0; i < g.count; i++) {
            Node& c = work_.nodes[work_.order[g.first + i]];
            c.value = g.value + (size_t)c.lane * size;
        }
    }
}

void Forward::compute() {
    hoisted_.rewind({});
    for (size_t k = work_.fresh; k < work_.groups.size(); k++) {
        Group& g = work_.groups[k];
        Use& u = work_.uses[g.use];
        const Watch watch(work_.timed, u);
        if (work_.timed) {
            u.groups++;
            u.rows += g.lanes;
        }
        if (g.series >= 0 && work_.series[g.series].first == (int32_t)k) hoist(work_.series[g.series]);
        forward(g);
    }
}

void Forward::forward(Group& g) {
    Use& u = work_.uses[g.use];
    const Program& p = *u.program;
    if (p.form != Form::REDUCE) work_.written += (double)g.lanes * p.size;
    switch (p.form) {
        case Form::MAP: return map(g, u);
        case Form::INPUT:
        case Form::LOOKUP: return;  // their rows came with them
        case Form::REDUCE: return sum(g, p.size);
        case Form::GATHER: return gather(g, p.size);
        case Form::JOIN: return join(g, p);
    }
}

void Forward::sum(const Group& g, size_t size) {
    for (int32_t i = 0; i < g.count; i++) {
        const Node& c = work_.nodes[work_.order[g.first + i]];
        for (int32_t l = 0; l < c.lanes; l++) {
            float* to = c.value + l * size;
            bool first = true;
            for (int32_t k = 0; k < c.count; k++) {
                const int32_t r = work_.refs[c.reads + k];
                if (r == NOTHING) continue;
                const float* from = work_.row(r, c.data >= 0 ? work_.words[c.data + k] : l);
                if (first)
                    memcpy(to, from, 4 * size);
                else
                    kernels().add(to, from, (long)size);
                first = false;
            }
            if (first) std::fill(to, to + size, 0.f);
            work_.written += (double)size * c.count;
        }
    }
}

void Forward::gather(const Group& g, size_t size) {
    for (int32_t i = 0; i < g.count; i++) {
        const Node& c = work_.nodes[work_.order[g.first + i]];
        float* to = c.value;
        if (c.data >= 0) {  // chosen elements of one node
            for (int32_t l = 0; l < c.lanes; l++, to += size)
                memcpy(to, work_.row(work_.refs[c.reads], work_.words[c.data + l]), 4 * size);
        } else {  // all elements of several
            for (int32_t k = 0; k < c.count; k++) {
                const Node& x = work_.nodes[work_.refs[c.reads + k]];
                memcpy(to, x.value, 4 * size * x.lanes);
                to += size * x.lanes;
            }
        }
    }
}

// Blocks of a row go to every `pieces`th place.
void Forward::join(const Group& g, const Program& p) {
    const size_t part = p.size / p.pieces, block = part / p.outer;
    zeros_.resize(std::max(zeros_.size(), part));
    for (int32_t i = 0; i < g.count; i++) {
        const Node& c = work_.nodes[work_.order[g.first + i]];
        for (int32_t l = 0; l < c.lanes; l++) {
            float* to = c.value + l * (size_t)p.size;
            for (int32_t k = 0; k < p.pieces; k++) {
                const int32_t r = k < c.count ? work_.refs[c.reads + k] : NOTHING;
                const float* from = r == NOTHING ? zeros_.data() : work_.row(r, l);
                for (int32_t o = 0; o < p.outer; o++)
                    memcpy(to + (o * p.pieces + k) * block, from + o * block, 4 * block);
            }
        }
    }
}

Frame& Forward::frame(const Use& u, long lanes, const Group* g) {
    Frame& f = frame_;
    const Program& p = *u.program;
    const Series* s = g && g->series >= 0 ? &work_.series[g->series] : nullptr;
    scratch_.rewind({});
    f.base.resize(p.slots());
    f.strides.resize(p.sizes.size());
    f.base[CONSTANT] = const_cast<float*>(p.constants.data());
    f.base[TEMPORARY] = scratch_.take((size_t)lanes * p.temporary);
    f.base[SAVED] = g ? g->saved : nullptr;
    f.base[VALUE] = g ? g->value : nullptr;
    f.base[COTANGENT] = g ? g->gradient : nullptr;
    if (s && s->outside) {
        f.base[HOISTED] = s->hoisted;
        f.first_hoisted = g->before;
        f.room_hoisted = s->lanes;
        f.outside = s->outside;
    } else {
        f.base[HOISTED] = scratch_.take((size_t)lanes * p.hoisted);
        f.first_hoisted = 0;
        f.room_hoisted = lanes;
        f.outside = 0;
    }
    for (size_t k = 0; k < u.weights.size(); k++) f.base[FIRST + k] = const_cast<float*>(u.weights[k]);
    f.lanes = f.width = lanes;
    f.lane = 0;
    f.room = g ? g->lanes : lanes;
    f.first = 0;
    f.apart = false;
    return f;
}

void Forward::read(const Group& g, long first, Frame& f) const {
    const Program& p = *work_.uses[g.use].program;
    for (size_t j = 0; j < p.sizes.size(); j++) {
        const Operands& x = operands_[g.operands + j];
        f.base[p.first_operand() + j] = x.base + first * x.stride;
        f.strides[j] = x.stride;
    }
    for (size_t j = 0; j < p.data.size(); j++)
        f.base[p.first_datum() + j] = data_[g.data + j] + first * (p.data[j] == 'k' ? 2 : 1);
}

// Note the rows of an operand, lane by lane, after those of other groups; null: zeros.
void Forward::collect(const Group& g, size_t operand) {
    for (int32_t i = 0; i < g.count; i++) {
        const Node& c = work_.nodes[work_.order[g.first + i]];
        const int32_t r = work_.refs[c.reads + operand];
        for (int32_t l = 0; l < c.lanes; l++) rows_.push_back(r == NOTHING ? nullptr : work_.row(r, l));
    }
}

// The rows that were noted, where they are if these lie evenly apart, else copied.
Forward::Operands Forward::side_by_side(long size, Arena& arena) {
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
        base = arena.take(rows_.size() * size);
        stride = size;
        for (size_t l = 0; l < rows_.size(); l++) memcpy(base + l * size, rows_[l], 4 * size);
        work_.written += (double)rows_.size() * size;
    }
    return {base, stride};
}

// Make the products of all work_.groups that need nothing of the recurrence.
void Forward::hoist(Series& s) {
    if (!s.outside) return;
    const Use& u = work_.uses[s.use];
    const Program& p = *u.program;
    s.hoisted = hoisted_.take((size_t)s.lanes * p.hoisted);
    Frame& f = frame(u, 0, nullptr);
    f.base[HOISTED] = s.hoisted;
    f.room_hoisted = f.lanes = s.lanes;
    f.outside = s.outside;
    f.apart = true;
    for (const Instruction& q : p.forward) {
        const int j = hoisted_operand(q.flags);
        if (!(q.flags & HOIST) || !(s.outside >> j & 1)) continue;
        rows_.clear();
        for (int32_t k = s.first; k <= s.last; k++)
            if (work_.groups[k].series == &s - work_.series.data()) collect(work_.groups[k], j);
        const Operands x = side_by_side(p.sizes[j], hoisted_);
        f.base[p.first_operand() + j] = x.base;
        f.strides[j] = x.stride;
    }
    run(p.forward, p, f);
}

void Forward::map(Group& g, Use& u) {
    const Program& p = *u.program;
    g.operands = (int32_t)operands_.size();
    g.data = (int32_t)data_.size();
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
            const Node& c = work_.nodes[work_.order[g.first + i]];
            memcpy(to, work_.words.data() + c.data + (size_t)at * c.lanes, 4 * (size_t)width * c.lanes);
            to += width * c.lanes;
        }
        at += width;
    }
    g.saved = values_.take((size_t)g.lanes * p.saved);
    Frame& f = frame(u, g.lanes, &g);
    read(g, 0, f);
    run(p.forward, p, f);
    work_.written += p.written * g.lanes;
}

size_t Forward::memory() const { return values_.words() + scratch_.words() + hoisted_.words(); }

Forward::Mark Forward::mark() const {
    return {operands_.size(), data_.size(), fetched_.size(), values_.here()};
}

void Forward::rewind(const Mark& to) {
    for (size_t k = to.fetched; k < fetched_.size(); k++)
        if ((size_t)fetched_[k] < work_.nodes.size()) work_.nodes[fetched_[k]] = EXTERNAL;
    operands_.resize(to.operands);
    data_.resize(to.data);
    fetched_.resize(to.fetched);
    values_.rewind(to.values);
}
