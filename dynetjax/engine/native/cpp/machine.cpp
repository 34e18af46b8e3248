// The interpreter: runs byte code on lanes.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "blocks.h"
#include "crew.h"
#include "kernels.h"
#include "matrices.h"
#include "moves.h"
#include "program.h"
#include "reductions.h"

namespace {

constexpr double MANY_NUMBERS = 1 << 14;  // of which each of several threads has as many
constexpr long ENOUGH = 128;  // lanes, of which a sum of products is as fast as one of all lanes there are
constexpr long BLOCK = 256;   // numbers of several arrays that the first cache has room for

using Index = const int32_t*;
using Cursor = const Instruction*;

struct Words {  // an operand, found: of lane l from at + l * stride on
    float* at;
    long stride;
    float* of(long lane) const { return at + lane * stride; }
};

Words find(const Operand& x, const Frame& f, const Program& p) {
    float* base = f.base[x.slot] + x.inner;
    long stride = x.stride;
    if (x.slot == TEMPORARY)
        base += f.width * x.start;
    else if (x.slot == HOISTED)
        base += f.room_hoisted * x.start + f.first_hoisted * stride;
    else if (x.slot == SAVED || x.slot == VALUE || x.slot == COTANGENT)
        base += f.room * x.start + f.first * stride;
    else if (x.slot >= p.first_operand() && x.slot < p.first_datum())
        stride = f.strides[x.slot - p.first_operand()];
    return {base + f.lane * stride, stride};
}

// An instruction that goes number by number, with its operands found. It is flat if the words of all lanes
// lie side by side in each of them, n of a lane, or are one for all.
struct Step {
    Elementwise kernel;
    Words d, operands[3];
    bool ones[3];  // where a word stands for all: of a lane, or if it is flat of all lanes
    bool flat;
    bool are_side_by_side(const Operand& x, int number, long n) {
        const long stride = operands[number].stride;
        if (n == 1) {
            ones[number] = stride == 0;
            return stride == 0 || stride == 1;
        }
        return stride == (x.one ? 0 : n);
    }

    void find_words(const Instruction& q, const Frame& f, const Program& p) {
        const Operand* given[] = {&q.a, &q.b, &q.c};
        kernel = kernels().elementwise[q.op];
        d = find(q.d, f, p);
        flat = f.lanes == 1 || d.stride == q.n;
        for (int i = 0; i < 3; i++) {
            operands[i] = has_operand(q.op, i + 1) ? find(*given[i], f, p) : d;
            ones[i] = given[i]->one;
            if (f.lanes > 1 && has_operand(q.op, i + 1)) flat = are_side_by_side(*given[i], i, q.n) && flat;
        }
        if (!flat)
            for (int i = 0; i < 3; i++) ones[i] = given[i]->one;
    }
    // n numbers, from number `at` of a lane on.
    void run(long lane, long at, long n) const {
        const auto from = [&](int i) { return operands[i].of(lane) + (ones[i] ? 0 : at); };
        kernel(d.of(lane) + at, from(0), from(1), from(2), n, ones[0] | ones[1] << 1 | ones[2] << 2);
    }
};

// Instructions that may run block by block, each on `n` numbers of a lane: what one has made is in the first
// cache when the next reads it.
void chain(Cursor at, int count, const Frame& f, const Program& p) {
    Step steps[MOST_IN_CHAIN];
    const long n = at->n;
    for (int i = 0; i < count; i++) steps[i].find_words(at[i], f, p);
    for (int i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && steps[end].flat == steps[i].flat;) end++;
        if (!steps[i].flat) {
            for (long l = 0; l < f.lanes; l++)
                for (int k = i; k < end; k++) steps[k].run(l, 0, n);
            continue;
        }
        const long all = n * f.lanes, block = end == i + 1 ? all : BLOCK;
        in_parts(all, 64, (double)all * (end - i), MANY_NUMBERS, [&](long from, long to) {
            for (long x = from; x < to; x += block)
                for (int k = i; k < end; k++) steps[k].run(0, x, std::min(block, to - x));
        });
    }
}

void matmul(const Instruction& q, const Frame& f, const Program& p) {
    const long rows = q.n, count = q.m, columns = q.k;
    Index e = p.extra.data() + q.extra;
    const long batch = e[0], ab = e[1], ai = e[2], ak = e[3], bb = e[4], bk = e[5], bj = e[6];
    const Words d = find(q.d, f, p), a = find(q.a, f, p), b = find(q.b, f, p);
    const bool more = q.flags & ACCUMULATE;
    if (batch == 1) {
        if (columns == 1 && a.stride == 0 &&
            (bk == 1 || count == 1))  // one matrix for the vectors of all lanes
            return product(d.at, d.stride, b.at, b.stride, 1, a.at, ak, ai, f.lanes, count, rows, more);
        if (rows == 1 && b.stride == 0 && (ak == 1 || count == 1))
            return product(d.at, d.stride, a.at, a.stride, 1, b.at, bk, bj, f.lanes, count, columns, more);
        if (b.stride == 0 && d.stride == rows * columns && a.stride == rows * ai)  // one matrix for matrices
            return product(d.at, columns, a.at, ai, ak, b.at, bk, bj, f.lanes * rows, count, columns, more);
        if (d.stride == 0 && count == 1 && more)  // a sum of outer products
            return product(d.at, columns, a.at, ai, a.stride, b.at, b.stride, bj, rows, f.lanes, columns,
                           true);
    }
    for (long l = 0; l < f.lanes; l++)
        for (long i = 0; i < batch; i++)
            product(d.of(l) + i * rows * columns, columns, a.of(l) + i * ab, ai, ak, b.of(l) + i * bb, bk,
                    bj, rows, count, columns, more);
}

void matrices(const Instruction& q, float* d, const float* a, const float* b) {
    const long m = q.m, k = q.k;
    for (long i = 0; i < q.n; i++) {
        if (q.op == FACTORISE)
            factorise(d + i * factor_words(m, k), a + i * m * k, m, k);
        else if (q.op == CHOLESKY)
            cholesky(d + i * m * m, a + i * m * m, m);
        else
            solve_triangle(d + i * m * k, a + i * m * m, b + i * m * k, m, k, q.flags & LOWER,
                           q.flags & UNIT);
    }
}

// to[n] += a[n], or the word of it that stands for all.
void add(float* to, const float* a, const Instruction& q) {
    if (!q.a.one || q.n == 1) return kernels().add(to, a, q.n);
    for (long i = 0; i < q.n; i++) to[i] += *a;
}
void add_to_operand(const Instruction& q, const Frame& f, const Program& p) {
    float** targets = f.targets[q.m];
    if (!targets) return;
    const Words a = find(q.a, f, p);
    for (long l = 0; l < f.lanes; l++)
        if (float* to = targets[f.lane + l]) add(to + q.k, a.of(l), q);
}
void add_to_weight(const Instruction& q, const Frame& f, const Program& p) {
    const Words d = find(q.d, f, p), a = find(q.a, f, p);
    for (long l = 0; l < f.lanes; l++) add(d.at, a.of(l), q);
}

void scatter_to_operand(const Instruction& q, const Frame& f, const Program& p) {
    float** targets = f.targets[q.k];
    if (!targets) return;
    const Words a = find(q.a, f, p), b = find(q.b, f, p);
    for (long l = 0; l < f.lanes; l++)
        if (float* to = targets[f.lane + l])
            scatter(to, a.of(l), (const int32_t*)b.of(l), p.extra.data() + q.extra, q.n, q.flags & CLIPPED,
                    false);
}

// Of many lanes the product is made at once.
void put_aside(const Instruction& q, const Frame& f, const Program& p) {
    const Words a = find(q.a, f, p), b = find(q.b, f, p);
    if (f.lanes >= ENOUGH) {
        float* to = find(q.d, f, p).at;
        return product(to, q.m, a.at, 1, a.stride, b.at, b.stride, 1, q.n, f.lanes, q.m, true);
    }
    Aside& to = f.asides[q.extra];
    for (long l = 0; l < f.lanes; l++, to.rows++) {
        memcpy(to.a + to.rows * q.n, a.of(l), 4 * q.n);
        memcpy(to.b + to.rows * q.m, b.of(l), 4 * q.m);
    }
}

void run(Cursor at, Cursor end, const Program& p, Frame& f);

// Run the blocks that belong to an instruction; where the next one is.
Cursor control(Cursor at, const Program& p, Frame& f) {
    const Instruction& q = *at++;
    if (q.op == LOOP) {
        for (long i = 0; i < q.n; i++) run(at, at + q.m, p, f);
        return at + q.m;
    }
    const long first = f.lane, lanes = f.lanes;
    const Words a = find(q.a, f, p);
    Index lengths = p.extra.data() + q.extra;
    f.lanes = 1;
    for (long l = 0; l < lanes; l++) {
        f.lane = first + l;
        const int32_t& which = *(const int32_t*)a.of(l);
        if (q.op == WHILE) {
            for (run(at, at + q.m, p, f); which; run(at, at + q.m, p, f))
                run(at + q.m, at + q.m + q.k, p, f);
        } else {
            const int chosen = std::min(std::max(which, 0), q.n - 1);
            const Cursor block = std::accumulate(lengths, lengths + chosen, at);
            run(block, block + lengths[chosen], p, f);
        }
    }
    f.lane = first;
    f.lanes = lanes;
    return q.op == WHILE ? at + q.m + q.k : std::accumulate(lengths, lengths + q.n, at);
}

// What runs on all lanes at once; whether it did.
bool run_on_all(const Instruction& q, const Program& p, const Frame& f) {
    switch (q.op) {
        case MATMUL: matmul(q, f, p); return true;
        case ADD_TO_OPERAND: add_to_operand(q, f, p); return true;
        case ADD_TO_WEIGHT: add_to_weight(q, f, p); return true;
        case PUT_ASIDE: put_aside(q, f, p); return true;
        case SCATTER_TO_OPERAND: scatter_to_operand(q, f, p); return true;
    }
    if (!is_reduction(q.op)) return false;
    const Words d = find(q.d, f, p), a = find(q.a, f, p);
    const long made = q.k, read = (long)q.m * q.k, outer = f.lanes * q.n;
    if (d.stride != q.n * made || a.stride != q.n * read) return false;
    in_parts(outer, 1, (double)outer * read, MANY_NUMBERS, [&](long at, long end) {
        reduce(q.op, d.at + at * made, a.at + at * read, end - at, q.m, q.k);
    });
    return true;
}

void run_on_one(const Instruction& q, const Program& p, float* d, float* a, const float* b, const float* c) {
    Index extra = p.extra.data() + q.extra, places = (Index)b;
    if (is_reduction(q.op)) return reduce(q.op, d, a, q.n, q.m, q.k);
    if (is_scan(q.op)) return scan(q.op, d, a, q.n, q.m, q.k, q.flags & REVERSED);
    switch (q.op) {
        case MOVE: return move(d, a, extra + 1, extra[0]);
        case SORT_ORDER: return sort_order(d, a, q.n, q.m, q.flags & INTS);
        case RANDOM_BITS: return random_bits(d, a, q.n);
        case GATHER: return gather(d, a, places, c, extra, q.n, q.flags & CLIPPED);
        case SCATTER: return scatter(d, a, places, extra, q.n, q.flags & CLIPPED, q.flags & INTS);
        default: matrices(q, d, a, b);
    }
}

void run(Cursor at, Cursor end, const Program& p, Frame& f) {
    while (at != end) {
        const Instruction& q = *at;
        const bool runs_apart = q.flags & HOIST && f.outside >> hoisted_operand(q.flags) & 1;
        if (runs_apart != f.apart) {
            at++;
        } else if (is_control(q.op)) {
            at = control(at, p, f);
        } else if (is_elementwise(q.op)) {
            chain(at, q.m, f, p);
            at += q.m;
        } else {
            at++;
            if (run_on_all(q, p, f)) continue;
            const Words d = find(q.d, f, p), a = find(q.a, f, p), b = find(q.b, f, p), c = find(q.c, f, p);
            for (long l = 0; l < f.lanes; l++) run_on_one(q, p, d.of(l), a.of(l), b.of(l), c.of(l));
        }
    }
}

}  // namespace

void run(const std::vector<Instruction>& code, const Program& p, Frame& f) {
    run(code.data(), code.data() + code.size(), p, f);
}
