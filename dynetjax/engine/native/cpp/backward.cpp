#include "backward.h"

#include <algorithm>

#include "kernels.h"

void Backward::run(const std::vector<Root>& roots, bool full,
                   const std::vector<std::vector<float*>>& gradients) {
    prepare(full);
    size_t last = 0;
    for (const Root& r : roots) {
        kernels().add(reach(r.number), r.gradient.data(), (long)r.gradient.size());
        last = std::max(last, (size_t)work_.nodes[r.number].group + 1);
    }
    for (size_t k = last; k--;) {
        const Group& g = work_.groups[k];
        const Watch watch(work_.timed, work_.uses[g.use]);
        if (g.gradient) back(g, gradients[g.use]);
        if (g.series >= 0 && work_.series[g.series].first == (int32_t)k) hoist(g.series);
    }
    for (size_t n = 0; n < work_.uses.size(); n++) add_asides(work_.uses[n], gradients[n]);
}

// Forget the last run, and find which nodes a gradient is asked of: all that something learned is part of.
void Backward::prepare(bool full) {
    gradients_.rewind({});
    for (Group& g : work_.groups) g.gradient = nullptr;
    for (Series& s : work_.series) s.hoisted = nullptr;
    std::vector<size_t> lanes(work_.uses.size(), 0);
    for (const Group& g : work_.groups) lanes[g.use] += g.lanes;
    for (size_t n = 0; n < work_.uses.size(); n++) {
        Use& u = work_.uses[n];
        u.asides.clear();
        for (const auto& [rows, columns] : u.program->asides)
            u.asides.push_back({gradients_.take(lanes[n] * rows), gradients_.take(lanes[n] * columns), 0});
    }
    for (Node& c : work_.nodes) {
        c.reached = false;
        if (c.use < 0) continue;  // nobody reads it
        c.needed = full || work_.program(c).weighted;
        for (int32_t k = 0; !c.needed && k < c.count; k++) {
            const int32_t r = work_.refs[c.reads + k];
            c.needed = r != NOTHING && work_.nodes[r].needed;
        }
    }
}

// Make the products of rows that were put aside.
void Backward::add_asides(Use& u, const std::vector<float*>& gradients) {
    const Program& p = *u.program;
    const Watch watch(work_.timed, u);
    for (const Instruction& q : p.backward) {
        if (q.op != PUT_ASIDE) continue;
        const Aside& a = u.asides[q.extra];
        float* to = gradients[q.d.slot - p.first_gradient()];
        if (a.rows) product(to, q.m, a.a, 1, q.n, a.b, q.m, 1, q.n, a.rows, q.m, true);
    }
}

float* Backward::reach(int32_t number) {
    Node& c = work_.nodes[number];
    if (c.external) return nullptr;
    Group& g = work_.groups[c.group];
    const size_t size = work_.program(c).size;
    if (!g.gradient) {
        g.gradient = gradients_.take((size_t)g.lanes * size);
        std::fill(g.gradient, g.gradient + g.lanes * size, 0.f);
        work_.written += (double)g.lanes * size;
    }
    c.reached = true;
    return g.gradient + (size_t)c.lane * size;
}

float* Backward::gradient_of(int32_t number) {
    const Node& c = work_.nodes[number];
    if (c.external || !c.reached) return nullptr;
    return work_.groups[c.group].gradient + (size_t)c.lane * work_.program(c).size;
}

bool Backward::is_asked(int32_t number) const {
    return number != DEAD && work_.nodes[number].reached && work_.nodes[number].needed;
}

void Backward::back(const Group& g, const std::vector<float*>& gradients) {
    const Program& p = *work_.uses[g.use].program;
    if (p.form == Form::INPUT || p.form == Form::LOOKUP) return;
    if (p.form == Form::MAP) {  // the lanes that were reached, as far as they lie side by side
        for (int32_t i = 0; i < g.count; i++) {
            if (!is_asked(work_.order[g.first + i])) continue;
            const int32_t from = i;
            long lanes = 0;
            for (; i < g.count && is_asked(work_.order[g.first + i]); i++)
                lanes += work_.nodes[work_.order[g.first + i]].lanes;
            map(g, gradients, from, i, work_.nodes[work_.order[g.first + from]].lane, lanes);
        }
        return;
    }
    for (int32_t i = 0; i < g.count; i++) {
        if (!is_asked(work_.order[g.first + i])) continue;
        const Node& c = work_.nodes[work_.order[g.first + i]];
        const float* from = g.gradient + (size_t)c.lane * p.size;
        if (p.form == Form::REDUCE)
            back_through_sum(c, p, from);
        else if (p.form == Form::GATHER)
            back_through_gather(c, p, from);
        else
            back_through_join(c, p, from);
    }
}

// Where the gradient of a node's lane goes; null: nowhere.
float* Backward::to(int32_t number, int32_t lane) {
    if (number == NOTHING || !work_.nodes[number].needed) return nullptr;
    const Node& c = work_.nodes[number];
    float* found = reach(number);
    const size_t size = work_.program(c).size;
    work_.written += (double)size;
    return found ? found + (c.lanes == 1 ? 0 : lane * size) : nullptr;
}

void Backward::back_through_sum(const Node& c, const Program& p, const float* from) {
    const size_t size = p.size;
    for (int32_t l = 0; l < c.lanes; l++)
        for (int32_t k = 0; k < c.count; k++)
            if (float* t = to(work_.refs[c.reads + k], c.data >= 0 ? work_.words[c.data + k] : l))
                kernels().add(t, from + l * size, (long)size);
}

void Backward::back_through_gather(const Node& c, const Program& p, const float* from) {
    const size_t size = p.size;
    if (c.data >= 0) {
        for (int32_t l = 0; l < c.lanes; l++)
            if (float* t = to(work_.refs[c.reads], work_.words[c.data + l]))
                kernels().add(t, from + l * size, (long)size);
        return;
    }
    for (int32_t k = 0; k < c.count; k++) {
        const int32_t r = work_.refs[c.reads + k], lanes = work_.nodes[r].lanes;
        if (float* t = to(r, 0)) kernels().add(t, from, (long)size * lanes);
        from += size * lanes;
    }
}

void Backward::back_through_join(const Node& c, const Program& p, const float* from) {
    const size_t part = p.size / p.pieces, block = part / p.outer;
    for (int32_t l = 0; l < c.lanes; l++, from += p.size)
        for (int32_t k = 0; k < c.count; k++)
            if (float* t = to(work_.refs[c.reads + k], l))
                for (int32_t o = 0; o < p.outer; o++)
                    kernels().add(t + o * block, from + (o * p.pieces + k) * block, (long)block);
}

// Where the gradient of an operand goes, by lane of the group, from `first` on; whether it
// goes anywhere. Lanes of nodes that are gone are left as they are.
bool Backward::aim(const Group& g, int32_t from, int32_t to, size_t operand, long first, float** targets) {
    bool any = false;
    for (int32_t i = from; i < to; i++) {
        const int32_t n = work_.order[g.first + i];
        if (!is_asked(n)) continue;
        const Node& c = work_.nodes[n];
        const int32_t r = work_.refs[c.reads + operand];
        float* found = r == NOTHING || !work_.nodes[r].needed ? nullptr : reach(r);
        const size_t step =
            r == NOTHING || work_.nodes[r].lanes == 1 ? 0 : work_.uses[g.use].program->sizes[operand];
        for (int32_t l = 0; l < c.lanes; l++)
            targets[c.lane - first + l] = found ? found + l * step : nullptr;
        any = any || found;
    }
    return any;
}

void Backward::map(const Group& g, const std::vector<float*>& gradients, int32_t from, int32_t to,
                   long first, long lanes) {
    Use& u = work_.uses[g.use];
    const Program& p = *u.program;
    if (g.series >= 0 && work_.series[g.series].outside && !work_.series[g.series].hoisted) {
        Series& s = work_.series[g.series];
        const size_t words = (size_t)s.lanes * p.hoisted;
        s.hoisted = gradients_.take(words);
        std::fill(s.hoisted, s.hoisted + words, 0.f);  // lanes that nothing reaches
    }
    Frame& f = forward_.frame(u, lanes, &g);
    f.first = first;
    f.first_hoisted += f.outside ? first : 0;
    forward_.read(g, first, f);
    const size_t count = p.sizes.size();
    if (targets_.size() < count) targets_.resize(count);
    f.targets.assign(count, nullptr);
    for (size_t j = 0; j < count; j++) {
        targets_[j].resize(lanes);
        if (aim(g, from, to, j, first, targets_[j].data())) f.targets[j] = targets_[j].data();
    }
    for (size_t j = 0; j < gradients.size(); j++) f.base[p.first_gradient() + j] = gradients[j];
    f.asides = u.asides.data();
    ::run(p.backward, p, f);
    work_.written += p.written_back * lanes;
}

// Add to the gradients of what comes from outside a recurrence, for all work_.groups at once.
void Backward::hoist(int32_t number) {
    const Series& s = work_.series[number];
    if (!s.hoisted) return;
    const Use& u = work_.uses[s.use];
    const Program& p = *u.program;
    std::vector<std::vector<float*>> targets(p.sizes.size());
    for (size_t j = 0; j < std::min(targets.size(), (size_t)HOISTABLE); j++) {
        if (!(s.outside >> j & 1)) continue;
        targets[j].assign(s.lanes, nullptr);
        for (int32_t k = s.first; k <= s.last; k++) {
            const Group& g = work_.groups[k];
            if (g.series == number) aim(g, 0, g.count, j, 0, targets[j].data() + g.before);
        }
    }
    for (long first = 0; first < s.lanes; first += WIDE) {
        Frame& f = forward_.frame(u, std::min((long)WIDE, s.lanes - first), nullptr);
        f.base[HOISTED] = s.hoisted;
        f.first_hoisted = first;
        f.room_hoisted = s.lanes;
        f.outside = s.outside;
        f.apart = true;
        f.targets.assign(p.sizes.size(), nullptr);
        for (size_t j = 0; j < targets.size(); j++)
            if (!targets[j].empty()) f.targets[j] = targets[j].data() + first;
        ::run(p.backward, p, f);
    }
}
