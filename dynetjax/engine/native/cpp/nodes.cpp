// Which nodes get rows, and which become part of what reads them.
#include "nodes.h"

#include <algorithm>

int32_t Nodes::add(MadeNode c) {
    narrow((int64_t)operands.size());
    narrow((int64_t)data.size());
    const int32_t number = narrow((int64_t)made.size());
    c.index = (int32_t)of_user.size();
    c.uses = 0;
    c.generation = generation;
    for (int32_t k = 0; k < c.count; k++)
        if (operands[c.first + k] >= 0) made[operands[c.first + k]].uses++;
    made.push_back(c);
    if (!c.is_part) of_user.push_back(number);
    return number;
}

void Nodes::drop(size_t count) {
    while (made.size() > count) {
        const MadeNode& c = made.back();
        for (int32_t k = 0; k < c.count; k++)
            if (operands[c.first + k] >= 0) made[operands[c.first + k]].uses--;
        operands.resize((size_t)std::min(c.first, c.shown));
        data.resize((size_t)c.data);
        lengths.resize((size_t)c.lengths);
        if (!c.is_part) of_user.pop_back();
        made.pop_back();
    }
}

void Nodes::clear() {
    made.clear();
    operands.clear();
    data.clear();
    lengths.clear();
    of_user.clear();
    held_.clear();
    asked_.clear();
    start_anew();
    generation++;
}

// Learning something may change what was decided before: then all that is new is decided again.
void Nodes::store(const std::vector<int32_t>& asked) {
    start_ = known();
    stored_before_ = stored_.size();
    revived_.clear();  // of what was stored before
    const int32_t stop = (int32_t)made.size();
    held_.resize(made.size(), false);
    asked_.assign((size_t)(stop - start_), false);
    for (int32_t n : asked)
        if (n >= start_) asked_[(size_t)(n - start_)] = true;
    for (int64_t learned = -1; learned != structures_.learned;) {
        unstore();
        learned = structures_.learned;
        fates_.resize((size_t)stop);
        for (int32_t n = start_; n < stop; n++) decide(n);
        for (int32_t n = start_; n < stop; n++)
            if (fates_[n].into < 0 && is_read(n) && (made[n].uses || !made[n].is_part)) emit(n);
        for (int32_t n : asked)
            if (fates_[n].at == NO_ROWS && is_read(n)) revive(n);
    }
}

void Nodes::unstore() {
    fates_.resize((size_t)start_);
    for (int32_t n : revived_) {
        fates_[n].at = NO_ROWS;
        fates_[n].is_late = false;
    }
    revived_.clear();
    stored_.cut(stored_before_);
}

// Whether a node of parameters alone has rows: if it is held, or reads such a one.
bool Nodes::has_rows_of_its_own(MadeNode& c, int32_t n) const {
    bool found = held_[n];
    for (int32_t k = 0; k < c.count; k++) {
        const int32_t r = operands[c.first + k];
        found = found || is_read(r);
    }
    return found;
}

bool Nodes::may_be_part(int32_t r, int32_t lanes) const {
    const MadeNode& x = made[r];
    return r >= start_ && x.uses == 1 && !asked_[(size_t)(r - start_)] && !held_[r] && x.lanes == lanes &&
           !structures_.known[fates_[r].structure].stored;
}

void Nodes::decide(int32_t n) {
    MadeNode& c = made[n];
    if (c.is_zeros) return;
    const Signature& s = structures_.signatures[c.signature];
    if (!c.lanes) {
        if (!has_rows_of_its_own(c, n)) return;
        c.lanes = 1;
    }
    if (s.form != Form::MAP) {
        fates_[n].sums = s.sums;
        fates_[n].structure = s.sums ? structures_.sum(s.kind) : structures_.plain(c.signature);
        for (int32_t k = 0; k < c.count; k++) {
            const int32_t r = operands[c.first + k];
            if (!is_read(r)) continue;
            if (r < start_ && fates_[r].at == NO_ROWS) revive(r);
            if (s.sums && fates_[r].sums && may_be_part(r, made[r].lanes))
                fates_[r].into = n;
            else
                read(r);
        }
        return;
    }
    sources_.clear();
    for (int32_t k = 0; k < c.count; k++) {
        const int32_t r = operands[c.first + k];
        if (!is_read(r)) {
            const bool zeros = r >= 0 && made[r].is_zeros;
            sources_.push_back({zeros ? Source::ROWS : Source::WEIGHT, 0});
            continue;
        }
        if (r < start_ && fates_[r].at == NO_ROWS) revive(r);
        const int32_t structure = fates_[r].structure;
        const Structure& x = structures_.known[structure];
        const bool instead = s.weights[k] >= 0;
        if (!instead && k < (int32_t)MOST_PARTS && may_be_part(r, c.lanes)) {
            sources_.push_back({fates_[r].sums ? Source::SUM : Source::PART, structure});
            if (fates_[r].sums) sources_.back().number = 0;
            continue;
        }
        sources_.push_back({instead ? Source::INSTEAD : Source::ROWS, x.provenance});
    }
    const Decision& found = structures_.decide(c.signature, sources_);
    fates_[n].structure = found.structure;
    fates_[n].sums = found.sums;
    for (int32_t k = 0; k < c.count; k++) {
        const int32_t r = operands[c.first + k];
        if (k < (int32_t)MOST_PARTS && found.parts[k / 64] >> (k % 64) & 1)
            fates_[r].into = n;
        else if (is_read(r))
            read(r);
    }
}

// Rows of a node are read: those that are made like it have some from now on, or the last of a
// recurrence would be another fused op than all before it.
void Nodes::read(int32_t n) {
    if (n >= start_ && !fates_[n].sums && !held_[n]) structures_.store(fates_[n].structure);
}

// Give rows to a node that was part of another in what was computed before.
void Nodes::revive(int32_t n) {
    if (!fates_[n].sums) structures_.store(fates_[n].structure);
    fates_[n].is_late = fates_[n].into >= 0 && !made[n].is_part;
    revived_.push_back(n);
    emit(n);
}

void Nodes::emit(int32_t n) {
    if (fates_[n].sums) return emit_sum(n);
    const size_t first = stored_.reads.size(), data_first = stored_.data.size();
    gather(n);
    fates_[n].at =
        stored_.add(fates_[n].structure, made[n].lanes, first, data_first, made[n].index, made[n].given);
}

// What a node reads, and its runtime data, in the order of its structure.
void Nodes::gather(int32_t n) {
    const MadeNode& c = made[n];
    for (int32_t k = 0; k < c.count; k++) {
        const int32_t r = operands[c.first + k];
        if (!is_read(r)) {
            if (r >= 0 && made[r].is_zeros) stored_.reads.push_back(NOTHING);
        } else if (fates_[r].into == n)
            gather(r);
        else
            stored_.reads.push_back(fates_[r].at);
    }
    stored_.data.insert(stored_.data.end(), data.begin() + c.data, data.begin() + c.data + c.words);
}

// Terms from left to right, and sums of them as long as there are more than can be read at once.
void Nodes::emit_sum(int32_t n) {
    const auto term = [](int32_t at) { return -2 - at; };  // and back
    terms_.clear();
    stack_.assign(1, n);
    while (!stack_.empty()) {
        const int32_t x = stack_.back();
        stack_.pop_back();
        if (x < 0) {
            terms_.push_back(term(x));
            continue;
        }
        const MadeNode& c = made[x];
        for (int32_t k = c.count; k--;) {
            const int32_t r = operands[c.first + k];
            if (!is_read(r))
                stack_.push_back(term(NOTHING));
            else
                stack_.push_back(fates_[r].into == x ? r : term(fates_[r].at));
        }
    }
    const int32_t structure = fates_[n].structure, index = made[n].index;
    while (terms_.size() > FAN_IN) {
        size_t to = 0;
        for (size_t k = 0; k < terms_.size(); k += FAN_IN) {
            const size_t stop = std::min(k + FAN_IN, terms_.size()), first = stored_.reads.size();
            if (stop == k + 1) {
                terms_[to++] = terms_[k];
                continue;
            }
            int32_t lanes = 1;
            for (size_t j = k; j < stop; j++)
                if (terms_[j] >= 0) lanes = std::max(lanes, stored_.nodes[terms_[j]].lanes);
            stored_.reads.insert(stored_.reads.end(), terms_.begin() + k, terms_.begin() + stop);
            terms_[to++] = stored_.add(structure, lanes, first, stored_.data.size(), index);
        }
        terms_.resize(to);
    }
    const size_t first = stored_.reads.size();
    stored_.reads.insert(stored_.reads.end(), terms_.begin(), terms_.end());
    fates_[n].at = stored_.add(structure, made[n].lanes, first, stored_.data.size(), index);
}

void Nodes::start_anew() {
    fates_.clear();
    revived_.clear();
    stored_.cut(0);
}

void Nodes::hold(int32_t n) {
    held_.resize(made.size(), false);
    held_[n] = true;
    start_anew();
}

void Nodes::cut(int32_t users) {
    if (users > (int32_t)of_user.size()) return;
    generation++;
    drop(users ? (size_t)of_user[users - 1] + 1 : 0);
    const int32_t count = std::min(known(), (int32_t)made.size());
    int32_t stop = 0;
    while (stop < stored_.size() && stored_.nodes[stop].index < users) stop++;
    stored_.cut(stop);
    fates_.resize((size_t)count);
    held_.resize(std::min(held_.size(), made.size()));
    for (Fate& f : fates_) {
        if (f.into >= count) f.into = -1;
        if (f.at >= stop) {
            f.at = NO_ROWS;
            f.is_late = false;
        }
    }
    revived_.clear();
}
