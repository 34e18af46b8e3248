// How a node comes to be part of another: the rules, and what they have led to.
#include "structures.h"

#include <algorithm>

namespace {
constexpr int32_t MOST_LEVELS = 8;  // of operations in one fused op
constexpr int32_t MOST_STEPS = 32;
constexpr int32_t MOST_ADDITIONS = 3;  // nested in one another, before they count as a long sum
constexpr int32_t MOST_TURNS = 4;      // structures of lists in which the same things take turns
}  // namespace

int32_t Interned::number(const int32_t* key, size_t count, bool& fresh) {
    const uint32_t h = hash(key, count);
    size_t at = place(key, count, h);
    fresh = slots_[at].number < 0;
    if (!fresh) return slots_[at].number;
    if (2 * (keys_.size() + 1) > slots_.size()) {
        std::vector<Slot> wider(2 * slots_.size());
        for (const Slot& s : keys_) {
            size_t to = s.hash & (wider.size() - 1);
            while (wider[to].number >= 0) to = (to + 1) & (wider.size() - 1);
            wider[to] = s;
        }
        wider.swap(slots_);
        at = place(key, count, h);
    }
    const Slot made{h, (int32_t)keys_.size(), ints_.size(), count};
    ints_.insert(ints_.end(), key, key + count);
    keys_.push_back(made);
    slots_[at] = made;
    return made.number;
}

uint32_t Interned::hash(const int32_t* key, size_t count) {
    uint64_t h = count + 1, factor = 0xD6E8FEB86659FD93ull;
    for (size_t k = 0; k < count; k++) {
        h += (uint64_t)(uint32_t)key[k] * factor;
        factor += 0x9E3779B97F4A7C16ull;
    }
    h ^= h >> 32;
    return (uint32_t)((h * 0xD6E8FEB86659FD93ull) >> 32);
}

size_t Interned::place(const int32_t* key, size_t count, uint32_t h) const {
    const size_t mask = slots_.size() - 1;
    for (size_t at = h & mask;; at = (at + 1) & mask) {
        const Slot& s = slots_[at];
        if (s.number < 0) return at;
        if (s.hash == h && s.count == count && std::equal(key, key + count, ints_.data() + s.first))
            return at;
    }
}

void Structures::write_key(int32_t signature, const std::vector<Source>& operands) {
    key_.clear();
    key_.push_back(signature);
    for (const Source& x : operands) {
        key_.push_back(x.role);
        key_.push_back(x.number);
    }
}

const Decision& Structures::decide(int32_t signature, const std::vector<Source>& operands) {
    write_key(signature, operands);
    bool fresh;
    const int32_t wish = wishes_.number(key_.data(), key_.size(), fresh);
    if ((size_t)wish >= decisions_.size()) decisions_.resize((size_t)wish + 1, {{-1, false, {0, 0}}, -1});
    if (decisions_[wish].facts != facts_) {
        const Decision made = resolve(signature, operands);
        decisions_[wish] = {made, facts_};
    }
    return decisions_[wish].what;
}

// An operand as it is where it does not become a part: rows, told apart by what computed them.
Source Structures::as_rows(const Source& x) const {
    if (x.role == Source::PART) return {Source::ROWS, known[x.number].provenance};
    if (x.role == Source::SUM) return {Source::ROWS, 0};
    return x;
}

Decision Structures::resolve(int32_t signature, std::vector<Source> operands) {
    const Signature& s = signatures[signature];
    if (s.adds) {
        const bool over_sums = std::any_of(operands.begin(), operands.end(),
                                           [](const Source& x) { return x.role == Source::SUM; });
        if (over_sums || is_long(signature, operands[1])) return sum_of(signature, operands);
        if (additions(signature, operands) > MOST_ADDITIONS) {
            note_long(signature, operands[1]);
            return sum_of(signature, operands);
        }
    }
    const bool weighted = std::any_of(operands.begin(), operands.end(),
                                      [](const Source& x) { return x.role == Source::WEIGHT; });
    for (Source& x : operands) {
        if (s.contraction || x.role == Source::SUM) x = as_rows(x);
        // the weights of a product tell what it is, whoever computed the rest
        if (s.contraction && weighted && x.role != Source::WEIGHT) x.number = 0;
    }
    int32_t turns = -1;
    if (s.listed) {
        turns = turns_for(signature, operands);
        if (turns >= 0 && turns_[turns].even)
            for (Source& x : operands)
                if (x.role == Source::PART || x.role == Source::ROWS) x = {Source::ROWS, -1 - turns};
    }
    while (part_of_one_too_large(signature, operands)) {
    }
    bool fresh;
    Decision found{make(signature, s.kind, operands, fresh), false, {0, 0}};
    for (size_t k = 0; k < operands.size(); k++)
        if (operands[k].role == Source::PART) found.parts[k / 64] |= 1ull << (k % 64);
    if (fresh && turns >= 0 && !turns_[turns].even) {
        const bool products = std::any_of(operands.begin(), operands.end(), [this](const Source& x) {
            return x.role == Source::PART && signatures[known[x.number].signature].contraction;
        });
        turns_[turns].structures.push_back(found.structure);
        if ((int32_t)turns_[turns].structures.size() > MOST_TURNS * (1 + products)) {
            make_even(turns);
            return resolve(signature, std::move(operands));
        }
    }
    return found;
}

// Let parts be rows that would nest an operation in itself, or too many in one another.
bool Structures::part_of_one_too_large(int32_t signature, std::vector<Source>& operands) const {
    int32_t steps = 1;
    for (const Source& x : operands)
        if (x.role == Source::PART) steps += known[x.number].steps;
    const bool adds = signatures[signature].adds;
    bool any = false;
    for (Source& x : operands) {
        if (x.role != Source::PART) continue;
        const Structure& inner = known[x.number];
        const bool nested = adds && inner.signature == signature;
        const bool recurs =
            !nested && std::find(inner.path.begin(), inner.path.end(), signature) != inner.path.end();
        const bool large = inner.steps > 1 && (inner.levels >= MOST_LEVELS || steps > MOST_STEPS);
        if (recurs || large) {
            x = as_rows(x);
            any = true;
        }
    }
    return any;
}

int32_t Structures::additions(int32_t signature, const std::vector<Source>& operands) const {
    int32_t most = 0;
    for (const Source& x : operands)
        if (x.role == Source::PART && known[x.number].signature == signature)
            most = std::max(most, known[x.number].additions);
    return 1 + most;
}

int32_t Structures::make(int32_t signature, int32_t kind, const std::vector<Source>& operands, bool& fresh) {
    write_key(signature, operands);
    if (signature < 0) key_.push_back(kind);
    const int32_t number = made_.number(key_.data(), key_.size(), fresh);
    if (!fresh) return number;
    Structure made;
    made.signature = signature;
    made.kind = kind;
    made.operands = operands;
    made.provenance = 0;
    if (signature >= 0) {
        const Signature& s = signatures[signature];
        bool weighted = false;
        made.path.push_back(signature);
        for (const Source& x : operands) {
            weighted = weighted || x.role == Source::WEIGHT;
            if (x.role != Source::PART) continue;
            const Structure& inner = known[x.number];
            made.steps += inner.steps;
            made.levels = std::max(made.levels, inner.levels + 1);
            made.path.insert(made.path.end(), inner.path.begin(), inner.path.end());
        }
        if (s.adds) made.additions = additions(signature, operands);
        if (s.form == Form::MAP && (s.contraction || weighted))
            made.provenance = signature + 1;
        else if (s.tells && !operands.empty())
            made.provenance = as_rows(operands[0]).number;
        made.stored = s.form != Form::MAP;
    }
    known.push_back(std::move(made));
    return number;
}

int32_t Structures::sum(int32_t kind) {
    bool fresh;
    return make(-1, kind, {}, fresh);
}

int32_t Structures::plain(int32_t signature) {
    bool fresh;
    return make(signature, signatures[signature].kind, {}, fresh);
}

// Sums ---------------------------------------------------------------------------------

Decision Structures::sum_of(int32_t signature, const std::vector<Source>& operands) {
    Decision found{sum(signatures[signature].kind), true, {0, 0}};
    for (size_t k = 0; k < operands.size(); k++)
        if (operands[k].role == Source::SUM) found.parts[k / 64] |= 1ull << (k % 64);
    return found;
}

// Whether additions of such a term were once part of a long chain.
bool Structures::is_long(int32_t signature, const Source& term) {
    const int32_t key[] = {signature, term.role, term.number};
    bool fresh;
    const int32_t at = names_.number(key, 3, fresh);
    return std::find(long_.begin(), long_.end(), at) != long_.end();
}

void Structures::note_long(int32_t signature, const Source& term) {
    for (const Source& x : {term, as_rows(term)}) {
        const int32_t key[] = {signature, x.role, x.number};
        bool fresh;
        long_.push_back(names_.number(key, 3, fresh));
    }
    for (size_t k = 0; k < known.size(); k++)
        if (known[k].signature == signature) outdated.push_back({(int32_t)k, true});
    facts_++;
    learned++;
}

// Lists --------------------------------------------------------------------------------

int32_t Structures::root_of(int32_t turns) {
    while (turns_[turns].root != turns) turns = turns_[turns].root = turns_[turns_[turns].root].root;
    return turns;
}

void Structures::make_even(int32_t turns) {
    turns_[turns].even = true;
    facts_++;
    learned++;
    for (int32_t structure : turns_[turns].structures) outdated.push_back({structure, true});
    turns_[turns].structures.clear();
}

// What has all lists in which something of this one has been, too; -1 if nothing tells what
// the operands are.
int32_t Structures::turns_for(int32_t signature, const std::vector<Source>& operands) {
    int32_t found = -1;
    const auto take = [&](const Source& x) {
        const int32_t key[] = {signature, x.role, x.number};
        bool fresh;
        const int32_t name = names_.number(key, 3, fresh);
        if ((size_t)name >= turns_of_.size()) turns_of_.resize((size_t)name + 1, -1);
        if (turns_of_[name] < 0) {
            if (found < 0) found = (int32_t)turns_.size(), turns_.push_back({found, false, {}});
            turns_of_[name] = found;
            return;
        }
        const int32_t other = root_of(turns_of_[name]);
        if (found < 0 || found == other) {
            found = other;
            return;
        }
        Turns &whole = turns_[found], &joined = turns_[other];
        const bool differ = whole.even != joined.even;
        joined.root = found;
        whole.structures.insert(whole.structures.end(), joined.structures.begin(), joined.structures.end());
        if (differ) make_even(found);
    };
    for (const Source& x : operands) {
        if (x.role == Source::PART) take(x);
        const Source rows = as_rows(x);
        if (rows.role == Source::ROWS && rows.number > 0) take(rows);
    }
    return found;
}
