#include "rule.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "crew.h"

namespace {

constexpr long MANY = 1 << 16;  // numbers, of which each of several threads has as many

// Instructions of one number, which come first.
size_t count_once(const Program& p) {
    const auto& code = p.forward;
    const auto many = [](const Instruction& q) { return q.n != 1; };
    return std::find_if(code.begin(), code.end(), many) - code.begin();
}

bool fits(const Program& p, const Rule& rule, int terms) {
    const Instruction* many = p.forward.data() + count_once(p);
    const long own = (long)rule.states * p.size;  // words that it saves of each number
    const auto is_one = [&](const Operand& x) {   // of the program, told, or made for all numbers
        return x.slot == CONSTANT || x.slot == TEMPORARY || (x.slot == SAVED && x.start >= own) ||
               (x.slot >= FIRST && x.slot < p.first_operand());
    };
    const auto is_given = [&](const Operand& x) {
        return !x.inner && !x.one && x.start % p.size == 0 &&
               (x.slot == VALUE || (x.slot == SAVED && x.start < own) || x.slot >= p.first_operand());
    };
    const auto goes = [&](const Instruction& q) {
        const bool is_many = &q >= many;
        const auto is_right = [&](const Operand& x) { return is_one(x) || (is_many && is_given(x)); };
        return is_elementwise(q.op) &&
               (!is_many || (q.n == p.size && (q.d.slot != SAVED || is_given(q.d)))) && is_right(q.d) &&
               is_right(q.a) && is_right(q.b) && is_right(q.c);
    };
    return p.form == Form::MAP && p.size > 1 && p.sizes == std::vector<int32_t>(2 + rule.states, p.size) &&
           p.weight_sizes == std::vector<int32_t>(terms + rule.common, 1) && p.data.empty() && !p.hoisted &&
           !p.differentiable && p.saved == own + rule.made &&
           std::all_of(p.forward.begin(), p.forward.end(), goes);
}

}  // namespace

Rule::Rule(std::vector<std::shared_ptr<const Program>> given)
    : programs(std::move(given)),
      states((int)programs.at(0)->sizes.size() - 2),
      common((long)programs[0]->weight_sizes.size() - COUNTS[0]),
      made(programs[0]->saved - (long)states * programs[0]->size) {
    if (states > MOST_STATES) throw std::invalid_argument("too many arrays of state");
    bool right = states >= 0 && common >= 0 && made >= 0 && programs.size() == std::size(COUNTS);
    for (size_t k = 0; right && k < programs.size(); k++)
        right = fits(*programs[k], *this, COUNTS[k]) && programs[k]->size == programs[0]->size;
    if (!right) throw std::invalid_argument("the program is not that of a rule");
}

Applier::Applier(const Rule& rule, double rate, double step, const std::vector<float>& common)
    : rule_(rule),
      terms_{(float)step, (float)rate},
      common_(common),
      made_(rule.made),
      zeros_(rule.programs[0]->size) {}

Applier::Place Applier::place_of(const Operand& x, const Program& p) const {
    const int first = p.first_operand();
    if (x.slot == CONSTANT) return {CONSTANTS, x.inner};
    if (x.slot == VALUE) return {CHANGED, 0};
    if (x.slot == SAVED) {
        const long past = x.start - (long)rule_.states * p.size;
        return past < 0 ? Place{STATES + x.start / p.size, 0} : Place{MADE, past + x.inner};
    }
    if (x.slot >= first)
        return {x.slot < first + 2 ? GRADIENTS + x.slot - first : STATES + x.slot - first - 2, 0};
    if (x.slot >= FIRST) return {TOLD, x.slot - FIRST};
    const long before = p.temporary % p.size;  // numbers that follow from the terms; then lines begin
    return {SCRATCH, x.start + x.inner + (LINE - before % LINE)};
}

void Applier::set(double factor, double seen, double stays, double by) {
    const Terms now{terms_.step, terms_.rate, (float)factor, (float)seen, (float)stays, (float)by};
    if (program_ && now == terms_) return;
    terms_ = now;
    size_t which = 0;
    while (!terms_.are_within(COUNTS[which])) which++;
    program_ = rule_.programs[which].get();
    const Program& p = *program_;
    told_.assign((const float*)&terms_, (const float*)&terms_ + COUNTS[which]);
    told_.insert(told_.end(), common_.begin(), common_.end());
    steps_.clear();
    for (const Instruction& q : p.forward)
        steps_.push_back({kernels().elementwise[q.op],
                          {place_of(q.d, p), place_of(q.a, p), place_of(q.b, p), place_of(q.c, p)},
                          q.a.one | q.b.one << 1 | q.c.one << 2});
    scratch_.assign(p.temporary / LINE + 2, Line{});
    const size_t once = count_once(p);
    run(0, once, {}, 0, 1, scratch_);
    first_ = once;
}

void Applier::run(size_t first, size_t end, const Changes& x, long at, long n,
                  std::vector<Line>& scratch) const {
    const float* bases[STATES + MOST_STATES] = {scratch.data()->numbers,
                                                program_->constants.data(),
                                                told_.data(),
                                                made_.data(),
                                                x.gradients ? x.gradients + at : zeros_.data(),
                                                x.values + at,
                                                x.changed + at};
    for (int k = 0; k < rule_.states; k++) bases[STATES + k] = x.states[k] + at;
    const auto found = [&](const Place& place) { return bases[place.base] + place.at; };
    for (size_t i = first; i < end; i++) {
        const Step& q = steps_[i];
        q.kernel(const_cast<float*>(found(q.places[0])), found(q.places[1]), found(q.places[2]),
                 found(q.places[3]), n, q.ones);
    }
}

void Applier::apply(const Changes& x) {
    const long size = rule_.programs[0]->size;
    const auto some = [&](long at, long end, std::vector<Line>& scratch) {
        for (; at < end; at += size) run(first_, steps_.size(), x, at, std::min(size, end - at), scratch);
    };
    if (x.count < 2 * MANY) return some(0, x.count, scratch_);
    in_parts(x.count, size, (double)x.count, MANY, [&](long at, long end) {
        std::vector<Line> scratch = scratch_;
        some(at, end, scratch);
    });
}
