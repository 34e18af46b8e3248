// Checks byte code before it runs: every place that an instruction names is one that it may read
// or write.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "blocks.h"
#include "program.h"

namespace {

// How many instructions each block has that an instruction of CONTROL runs.
std::vector<long> lengths_of_blocks(const Instruction& q, const Program& p) {
    if (q.op == LOOP) return {q.m};
    if (q.op == WHILE) return {q.m, q.k};
    const auto first = p.extra.begin() + q.extra;
    return {first, first + q.n};
}

struct Checker {
    const Program& p;
    bool back;
    std::string wrong;
    std::vector<bool> put_aside;  // which products were

    bool need(bool right, const char* what) {
        if (!right && wrong.empty()) wrong = what;
        return right;
    }
    // Words that a lane has in a slot, beginning where the operand does; -1: none.
    long room(const Operand& x) {
        if (x.slot < 0 || x.slot >= p.slots()) return -1;
        if (x.slot == CONSTANT) return x.stride ? -1 : (long)p.constants.size();
        if (x.slot == TEMPORARY)
            return x.start >= 0 && x.stride >= 0 && (long)x.start + x.stride <= p.temporary ? x.stride : -1;
        if (x.slot == SAVED)
            return x.start >= 0 && x.stride >= 0 && (long)x.start + x.stride <= p.saved ? x.stride : -1;
        if (x.slot == HOISTED)
            return x.start >= 0 && x.stride >= 0 && (long)x.start + x.stride <= p.hoisted ? x.stride : -1;
        if (x.slot == VALUE) return x.stride == p.size && !x.start ? p.size : -1;
        if (x.slot == COTANGENT) return back && x.stride == p.size && !x.start ? p.size : -1;
        if (x.slot < p.first_operand()) return x.stride ? -1 : p.weight_sizes[x.slot - FIRST];
        if (x.slot < p.first_datum()) return x.stride == DYNAMIC ? p.sizes[x.slot - p.first_operand()] : -1;
        if (x.slot < p.first_gradient()) {
            const long words = p.data[x.slot - p.first_datum()] == 'k' ? 2 : 1;
            return x.stride == words ? words : -1;
        }
        return back && !x.stride ? p.weight_sizes[x.slot - p.first_gradient()] : -1;
    }
    // That words from `inner` on, up to the one that is `last` after it, are there.
    void reads(const Operand& x, long last) {
        const long words = room(x);
        need(words >= 0 && x.inner >= 0 && last >= 0 && x.inner + last < words,
             "an operand is not where it may be");
    }
    void writes(const Operand& x, long last) {
        reads(x, last);
        const bool gradient = x.slot >= p.first_gradient();
        need(x.slot == TEMPORARY || x.slot == HOISTED || gradient ||
                 (!back && (x.slot == SAVED || x.slot == VALUE)),
             "a result is where none may be");
    }
    bool has_rule(const Instruction& q);
    void instruction(const Instruction& q);
    // Whether a HOIST instruction touches only what there is outside a recurrence.
    bool can_run_apart(const Instruction& q) {
        const int number = hoisted_operand(q.flags);
        if (number < 0 || number >= HOISTABLE || number >= (int)p.sizes.size()) return false;
        if (q.op == ADD_TO_OPERAND) return back && q.m == number && q.a.slot == TEMPORARY;
        auto known = [&](const Operand& x) {
            return (x.slot >= FIRST && x.slot < p.first_operand()) ||
                   (back ? x.slot == HOISTED : x.slot == p.first_operand() + number);
        };
        return q.op == MATMUL && q.d.slot == (back ? TEMPORARY : HOISTED) && known(q.a) && known(q.b);
    }

    static bool is_known(const OperandRule& x) {
        return x.extent == Extent::ALL || x.extent == Extent::ANY_OR_ONE;
    }
    static bool is_copy(const Operand& x, const Operand& d) { return !memcmp(&x, &d, sizeof(Operand)); }

    // Instructions of a block, and those of the blocks in it; `failed` is the first that is wrong.
    const Instruction* failed = nullptr;
    void block(const Instruction* at, const Instruction* end, int depth) {
        while (at != end && wrong.empty()) {
            const Instruction& q = *at++;
            instruction(q);
            need(!depth || q.op != PUT_ASIDE,
                 "a product is put aside in a loop");  // there is room for one of a lane
            if (q.flags & HOIST)
                need(!depth && can_run_apart(q), "what is hoisted needs more than its operand");
            if (wrong.empty() && is_control(q.op)) at = blocks(q, at, end, depth);
            if (!wrong.empty() && !failed) failed = &q;
        }
    }
    const Instruction* blocks(const Instruction& q, const Instruction* at, const Instruction* end,
                              int depth) {
        if (!need(depth < 64, "loops are nested too deep")) return end;
        for (long n : lengths_of_blocks(q, p)) {
            if (!need(n >= 0 && n <= end - at, "a block is longer than what it is in")) return end;
            block(at, at + n, depth + 1);
            at += n;
        }
        return at;
    }
};

// What holds of all instructions: opcode, sizes, flags, and the operands that the table tells.
bool Checker::has_rule(const Instruction& q) {
    if (!need(q.op >= 0 && q.op < OPCODES && q.n >= 0 && q.m >= 0 && q.k >= 0,
              "an opcode or a size is none"))
        return false;
    const OpcodeRule& rule = RULES[q.op];
    const bool hoists = q.flags & HOIST;
    need(!(q.flags & 255 & ~rule.flags) && (hoists || !hoisted_operand(q.flags)), "a flag that it has not");
    for (int i = 0; i < 4; i++) {
        const Operand& x = q.operand(i);
        need(x.slot >= 0 && x.slot < p.slots() && (x.one == 0 || x.one == 1), "an operand has no slot");
        need(!i || has_operand(q.op, i) || is_copy(x, q.d), "an operand that it has not");
    }
    need(q.op == PUT_ASIDE || (q.extra >= 0 && q.extra <= (long)p.extra.size()), "extra is too short");
    for (const OperandRule& of : rule.operands) {
        if (!is_known(of)) continue;
        const double words = of.words(q.n, q.m, q.k);
        need(words > 0, "nothing to compute");
        need(words <= INT32_MAX, "a size is too large");
    }
    for (int i = 0; i < 4 && wrong.empty(); i++) {
        if (!is_known(rule.operands[i])) continue;
        const Operand& x = q.operand(i);
        const long last = words_of(q, i) - 1;
        i ? reads(x, last) : writes(x, last);
    }
    return wrong.empty();
}

void Checker::instruction(const Instruction& q) {
    if (!has_rule(q)) return;
    const long n = q.n, m = q.m, k = q.k, most = INT32_MAX;
    const long extra = q.op == PUT_ASIDE ? 0 : q.extra;  // there it is a number
    const int32_t* e = p.extra.data() + extra;
    const long given = (long)p.extra.size() - extra;
    switch (q.op) {
        case MOVE: {
            if (!need(given > 0, "extra is too short") || !need(e[0] >= 0 && e[0] <= 8, "too many axes") ||
                !need(given >= 1 + 3L * e[0], "extra is too short"))
                return;
            long d = 0, a = 0, before = 0;
            for (int i = 0; i < e[0]; i++) {
                const int32_t* x = e + 1 + 3 * i;
                if (!need(x[0] > 0 && x[1] >= 0, "an axis is none")) return;
                d += (x[0] - 1L) * x[1];
                (x[2] < 0 ? before : a) += (x[0] - 1L) * x[2];
            }
            need(q.a.inner + before >= 0, "a block begins before its operand");
            writes(q.d, d);
            reads(q.a, a);
            return;
        }
        case MATMUL: {
            if (!need(given >= 7, "extra is too short") ||
                !need(n > 0 && m > 0 && k > 0, "an empty product") ||
                !need(n <= most / 2 && m <= most / 2 && k <= most / 2, "a size is too large"))
                return;
            for (int i = 0; i < 7; i++)
                if (!need(e[i] >= 0, "a distance is negative")) return;
            if (!need(e[0] > 0 && n * k <= most / e[0], "no batch")) return;
            const bool gradient = q.d.slot >= p.first_gradient();
            if (!need(!gradient || (q.flags & ACCUMULATE), "a gradient is set instead of added to")) return;
            writes(q.d, (long)e[0] * n * k - 1);
            reads(q.a, (e[0] - 1L) * e[1] + (n - 1) * e[2] + (m - 1) * e[3]);
            reads(q.b, (e[0] - 1L) * e[4] + (m - 1) * e[5] + (k - 1) * e[6]);
            return;
        }
        case PUT_ASIDE:
            if (!need(q.extra >= 0 && q.extra < (int)p.asides.size() &&
                          p.asides[q.extra] == std::make_pair(q.n, q.m),
                      "no such product"))
                return;
            put_aside.resize(p.asides.size());
            if (!need(!put_aside[q.extra], "a product is put aside twice"))
                return;  // there is room for one of a lane
            put_aside[q.extra] = true;
            need(q.d.slot >= p.first_gradient() && q.d.inner == 0 && room(q.d) == n * m,
                 "a product for no gradient");
            return;
        case ADD_TO_WEIGHT: need(q.d.slot >= p.first_gradient(), "no gradient of a weight"); return;
        case ADD_TO_OPERAND:
            need(back && m < (long)p.sizes.size() && k + n <= p.sizes[m], "no gradient of an operand");
            return;
        case GATHER:
        case SCATTER:
        case SCATTER_TO_OPERAND: {
            if (!need(n > 0 && m > 0 && given > 0, "no blocks")) return;
            const Blocks x = blocks_of(e, given, q.op != GATHER);
            if (!need(x.wrong.empty(), x.wrong.c_str()) ||
                !need(x.block == m && n <= most / std::max(x.placed, 1), "blocks of another size"))
                return;
            if (x.placed) reads(q.b, n * x.placed - 1);
            if (q.op == GATHER) reads(q.a, x.whole - 1);
            if (q.op == SCATTER) writes(q.d, x.whole - 1);
            if (q.op == SCATTER_TO_OPERAND)
                need(back && k < (long)p.sizes.size() && x.whole <= p.sizes[k] && x.adds,
                     "no gradient of an operand");
            return;
        }
        case BRANCH: need(n > 0, "no block") && need(given >= n, "extra is too short"); return;
    }
}

// Where an operand's words of a lane are, among all of its slot.
struct Range {
    int32_t slot;
    long begin, end;   // of the buffers
    long first, last;  // in these
};
Range range_of(const Operand& x, long n) {
    const long words = x.one ? 1 : n, buffer = std::max(x.stride, 1);
    return {x.slot, x.start, x.start + buffer, x.inner, x.inner + words};
}
// Whether no number is at one place in the one and at another in the other.
bool are_apart(const Operand& x, const Operand& y, long n) {
    if (x.slot != y.slot || !memcmp(&x, &y, sizeof(Operand))) return true;
    const Range a = range_of(x, n), b = range_of(y, n);
    if (a.end <= b.begin || b.end <= a.begin) return true;
    return x.start == y.start && x.stride == y.stride && (a.last <= b.first || b.last <= a.first);
}
// Whether an instruction may run on some numbers before `before` has run on all.
bool may_overtake(const Instruction& q, const Instruction& before) {
    const auto disturbs = [&](const Instruction& writer, const Instruction& other) {
        return !are_apart(writer.d, other.d, q.n) || !are_apart(writer.d, other.a, q.n) ||
               !are_apart(writer.d, other.b, q.n) || !are_apart(writer.d, other.c, q.n);
    };
    return q.n == before.n && !disturbs(q, before) && !disturbs(before, q);
}
// Tells each instruction that goes number by number how many, from it on, may run block by block: `m`.
void find_chains(std::vector<Instruction>& code, const Program& p) {
    std::vector<bool> begins(code.size() + 1);  // a block of a loop begins or ends here
    for (size_t i = 0; i < code.size(); i++) {
        const Instruction& q = code[i];
        if (!is_control(q.op)) continue;
        size_t at = i + 1;
        begins[at] = true;
        for (const long n : lengths_of_blocks(q, p)) begins[at += n] = true;
    }
    for (size_t i = 0, end; i < code.size(); i = end) {
        end = i + 1;
        if (!is_elementwise(code[i].op)) continue;
        const auto goes_on = [&] {
            return is_elementwise(code[end].op) && !begins[end] && end - i < MOST_IN_CHAIN &&
                   std::all_of(
                       code.begin() + i, code.begin() + end,
                       [&](const Instruction& before) { return may_overtake(code[end], before); });
        };
        while (end < code.size() && goes_on()) end++;
        for (size_t k = i; k < end; k++) code[k].m = (int32_t)(end - k);
    }
}

// Words that the instructions [at, end) write, of which each is run so often.
double count_words(const Program& p, const Instruction* at, const Instruction* end, double times) {
    double words = 0;
    while (at != end) {
        const Instruction& q = *at++;
        const double batch = q.op == MATMUL ? p.extra[q.extra] : 1;
        words += times * batch * words_written(q.op, q.n, q.m, q.k);
        if (q.op != LOOP) continue;
        words += count_words(p, at, at + q.m, times * q.n);
        at += q.m;
    }
    return words;
}

}  // namespace

void Program::prepare() {
    find_chains(forward, *this);
    find_chains(backward, *this);
    written = count_words(*this, forward.data(), forward.data() + forward.size(), 1);
    written_back = count_words(*this, backward.data(), backward.data() + backward.size(), 1);
}

std::string Program::check() const {
    Checker forth{*this, false, {}, {}}, back{*this, true, {}, {}};
    for (const auto& x : weight_sizes)
        if (x < 0) return "a weight has no size";
    for (const auto& x : sizes)
        if (x <= 0) return "an operand has no size";
    if (size <= 0 || temporary < 0 || saved < 0 || hoisted < 0) return "a row has no size";
    for (const auto& [rows, columns] : asides)
        if (rows <= 0 || columns <= 0) return "a product has no size";
    for (const char type : data)
        if (!std::strchr("ifk", type)) return "runtime data is of no type";
    if (weights.size() != weight_sizes.size()) return "sizes are missing";
    for (Checker* checker : {&forth, &back}) {
        const auto& code = checker->back ? backward : forward;
        checker->block(code.data(), code.data() + code.size(), 0);
        if (const Instruction* q = checker->failed)
            return checker->wrong + ": instruction " + std::to_string(q - code.data()) +
                   (checker->back ? " of backward, " : " of forward, ") +
                   (q->op >= 0 && q->op < OPCODES ? RULES[q->op].name : "opcode " + std::to_string(q->op));
    }
    return "";
}
