// The interpreter: runs byte code on lanes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "blocks.h"
#include "crew.h"
#include "kernels.h"
#include "matrices.h"
#include "program.h"
#include "windows.h"

namespace {

// Of which each of several threads has as many: some 40 microseconds' work, as waking one may take 20.
constexpr double MANY_NUMBERS = 1 << 16, MANY_PRODUCTS = 1 << 20;

using Index = const int32_t*;

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

// Whether the words of all lanes are side by side: `one` for all, or n of each.
bool is_flat(const Operand& x, const Words& w, long n, bool& scalar) {
    if (n == 1) {
        scalar = w.stride == 0;
        return w.stride == 0 || w.stride == 1;
    }
    scalar = x.one;
    return x.one ? w.stride == 0 : w.stride == n;
}

void elementwise(const Instruction& q, const Frame& f, const Program& p) {
    const auto kernel = kernels().elementwise[q.op];
    const Words d = find(q.d, f, p), a = find(q.a, f, p), b = find(q.b, f, p), c = find(q.c, f, p);
    bool one[3] = {};
    bool flat = f.lanes == 1 || d.stride == q.n;
    if (f.lanes == 1) {
        one[0] = q.a.one, one[1] = q.b.one, one[2] = q.c.one;
    } else {
        flat = flat && is_flat(q.a, a, q.n, one[0]);
        if (has_operand(q.op, 2)) flat = flat && is_flat(q.b, b, q.n, one[1]);
        if (has_operand(q.op, 3)) flat = flat && is_flat(q.c, c, q.n, one[2]);
    }
    if (flat) {
        const int ones = one[0] | one[1] << 1 | one[2] << 2;
        const long n = q.n * f.lanes;
        return in_parts(n, 64, (double)n, MANY_NUMBERS, [&](long at, long end) {
            kernel(d.at + at, a.at + (one[0] ? 0 : at), b.at + (one[1] ? 0 : at), c.at + (one[2] ? 0 : at),
                   end - at, ones);
        });
    }
    const int scalars = q.a.one | q.b.one << 1 | q.c.one << 2;
    for (long l = 0; l < f.lanes; l++) kernel(d.of(l), a.of(l), b.of(l), c.of(l), q.n, scalars);
}

// A block of up to 8 axes; `at` has of each its size, and how far apart its numbers are.
void move(float* d, const float* a, Index at, int axes) {
    if (axes == 0) {
        *d = *a;
        return;
    }
    const long n = at[0], sd = at[1], sa = at[2];
    if (axes == 1) {
        if (sd == 1 && sa == 1)
            memmove(d, a, 4 * n);
        else
            for (long i = 0; i < n; i++) d[i * sd] = a[i * sa];
        return;
    }
    for (long i = 0; i < n; i++) move(d + i * sd, a + i * sa, at + 3, axes - 1);
}

// d[rows, columns] (+)= a[rows, count] b[count, columns], numbers any distance apart.
void product_of_some(float* d, long ldd, const float* a, long ai, long ak, const float* b, long bk, long bj,
                     long rows, long count, long columns, bool more) {
    const Kernels& k = kernels();
    if (columns == 1) bj = 1;
    if (rows == 1) ai = 1;
    if (count == 1) ak = bk = 1;
    if (columns == 1 && rows > 1 && ldd == 1) {  // a matrix and a vector: as a vector and a matrix
        if (ak == 1 && bk == 1) return k.dots(d, rows, b, count, a, ai, 1, count, rows, more);
        if (ai == 1) return k.product(d, rows, b, 1, bk, a, ak, 1, count, rows, more);
    }
    if (ak == 1 && bk == 1 && (bj != 1 || columns == 1))
        return k.dots(d, ldd, a, ai, b, bj, rows, count, columns, more);
    if (bj == 1) return k.product(d, ldd, a, ai, ak, b, bk, rows, count, columns, more);
    std::vector<float> copy(count * columns);
    for (long i = 0; i < count; i++)
        for (long j = 0; j < columns; j++) copy[i * columns + j] = b[i * bk + j * bj];
    k.product(d, ldd, a, ai, ak, copy.data(), columns, rows, count, columns, more);
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

template <class T, class F>
void reduce_by(float* d_, const float* a_, long outer, long count, long inner, T start, F f) {
    T* d = (T*)d_;
    const T* a = (const T*)a_;
    for (long o = 0; o < outer; o++, d += inner, a += count * inner)
        for (long i = 0; i < inner; i++) {
            T found = start;
            for (long c = 0; c < count; c++) found = f(found, a[c * inner + i]);
            d[i] = found;
        }
}
float larger(float a, float b) { return (a > b || a != a) ? a : b; }
float lesser(float a, float b) { return (a < b || a != a) ? a : b; }

// Where the first of the largest is, or of the least; NaN comes before all.
void place_of_most(float* d, const float* a, long outer, long count, long inner, float sign) {
    int32_t* to = (int32_t*)d;
    for (long o = 0; o < outer; o++, to += inner, a += count * inner)
        for (long i = 0; i < inner; i++) {
            long best = 0;
            for (long c = 1; c < count; c++) {
                const float x = sign * a[c * inner + i], y = sign * a[best * inner + i];
                if (x > y || (x != x && y == y)) best = c;
            }
            to[i] = (int32_t)best;
        }
}

void place_of_most_int(float* d, const float* a_, long outer, long count, long inner, bool least) {
    int32_t* to = (int32_t*)d;
    const int32_t* a = (const int32_t*)a_;
    for (long o = 0; o < outer; o++, to += inner, a += count * inner)
        for (long i = 0; i < inner; i++) {
            long best = 0;
            for (long c = 1; c < count; c++) {
                const int32_t x = a[c * inner + i], y = a[best * inner + i];
                if (least ? x < y : x > y) best = c;
            }
            to[i] = (int32_t)best;
        }
}

void reduce(int op, float* d, const float* a, long outer, long count, long inner) {
    const float infinity = std::numeric_limits<float>::infinity();
    switch (op) {
        case SUM:
            if (inner == 1) {
                for (long o = 0; o < outer; o++) d[o] = kernels().sum(a + o * count, count);
                return;
            }
            for (long o = 0; o < outer; o++, d += inner, a += count * inner) {
                std::fill(d, d + inner, 0.f);
                for (long c = 0; c < count; c++) kernels().add(d, a + c * inner, inner);
            }
            return;
        case PRODUCT:
            return reduce_by<float>(d, a, outer, count, inner, 1.f, [](float x, float y) { return x * y; });
        case LARGEST: return reduce_by<float>(d, a, outer, count, inner, -infinity, larger);
        case LEAST: return reduce_by<float>(d, a, outer, count, inner, infinity, lesser);
        case SUM_I:
            return reduce_by<int32_t>(d, a, outer, count, inner, 0, [](int32_t x, int32_t y) {
                return (int32_t)((uint32_t)x + (uint32_t)y);
            });
        case LARGEST_I:
            return reduce_by<int32_t>(d, a, outer, count, inner, INT32_MIN,
                                      [](int32_t x, int32_t y) { return std::max(x, y); });
        case LEAST_I:
            return reduce_by<int32_t>(d, a, outer, count, inner, INT32_MAX,
                                      [](int32_t x, int32_t y) { return std::min(x, y); });
        case ALL:
            return reduce_by<int32_t>(d, a, outer, count, inner, 1,
                                      [](int32_t x, int32_t y) { return x & y; });
        case ANY:
            return reduce_by<int32_t>(d, a, outer, count, inner, 0,
                                      [](int32_t x, int32_t y) { return x | y; });
        case ARGMAX_I: return place_of_most_int(d, a, outer, count, inner, false);
        case ARGMIN_I: return place_of_most_int(d, a, outer, count, inner, true);
        case ARGMAX: return place_of_most(d, a, outer, count, inner, 1);
        case ARGMIN: return place_of_most(d, a, outer, count, inner, -1);
    }
}

template <class T, class F>
void scan_by(float* d_, const float* a_, long outer, long count, long inner, bool reversed, F f) {
    T* d = (T*)d_;
    const T* a = (const T*)a_;
    for (long o = 0; o < outer; o++, d += count * inner, a += count * inner)
        for (long i = 0; i < inner; i++) {
            T found{};
            for (long c = 0; c < count; c++) {
                const long at = (reversed ? count - 1 - c : c) * inner + i;
                d[at] = found = c ? f(found, a[at]) : a[at];
            }
        }
}
float log_add(float a, float b) {
    const float most = larger(a, b), least = a < b ? a : b;
    if (std::isinf(most) || most != most) return most;
    return most + std::log1p(std::exp(least - most));
}
void scan(int op, float* d, const float* a, long outer, long count, long inner, bool reversed) {
    switch (op) {
        case CUMSUM:
            return scan_by<float>(d, a, outer, count, inner, reversed,
                                  [](float x, float y) { return x + y; });
        case CUMPROD:
            return scan_by<float>(d, a, outer, count, inner, reversed,
                                  [](float x, float y) { return x * y; });
        case CUMMAX: return scan_by<float>(d, a, outer, count, inner, reversed, larger);
        case CUMMIN: return scan_by<float>(d, a, outer, count, inner, reversed, lesser);
        case CUMLOGSUMEXP: return scan_by<float>(d, a, outer, count, inner, reversed, log_add);
        case CUMSUM_I:
            return scan_by<int32_t>(d, a, outer, count, inner, reversed, [](int32_t x, int32_t y) {
                return (int32_t)((uint32_t)x + (uint32_t)y);
            });
    }
}

// The order of JAX: -inf first, -0 and 0 alike, NaN last; or NaN first and -inf last.
// Equal numbers stay as they come.
void sort_order(float* d, const float* a, long outer, long count, int flags) {
    const auto before = [](float x, float y) { return x == x && (y != y || x < y); };
    for (long o = 0; o < outer; o++, d += count, a += count) {
        int32_t* order = (int32_t*)d;
        const int32_t* x = (const int32_t*)a;
        std::iota(order, order + count, 0);
        if (flags & INTS)
            std::stable_sort(order, order + count, [x](int32_t i, int32_t j) { return x[i] < x[j]; });
        else if (flags & LARGEST_FIRST)
            std::stable_sort(order, order + count,
                             [a, before](int32_t i, int32_t j) { return before(a[j], a[i]); });
        else
            std::stable_sort(order, order + count,
                             [a, before](int32_t i, int32_t j) { return before(a[i], a[j]); });
    }
}

void take(float* d, const float* a, const float* b, long outer, long count, long room) {
    for (long o = 0; o < outer; o++, d += count, a += room, b += count)
        for (long c = 0; c < count; c++) {
            const long at = ((const int32_t*)b)[c];
            d[c] = at >= 0 && at < room ? a[at] : std::numeric_limits<float>::quiet_NaN();
        }
}
void add_at(float* d, const float* a, const float* b, long outer, long count, long room) {
    for (long o = 0; o < outer; o++, d += room, a += count, b += count)
        for (long c = 0; c < count; c++) {
            const long at = ((const int32_t*)a)[c];
            if (at >= 0 && at < room) d[at] += b[c];
        }
}

// A block of `a` that begins at the places `starts`, or as near as it can.
const float* block_of(const float* a, const float* starts, Index at, int axes, int32_t* sizes) {
    for (int k = 0; k < axes; k++, at += 3) {
        const int32_t start = ((const int32_t*)starts)[k];
        a += (long)std::min(std::max(start, 0), at[1] - at[0]) * at[2];
        sizes[k] = at[0];
    }
    return a;
}
void slice_at(float* d, float* a, const float* starts, Index extra, bool put) {
    const int axes = extra[0];
    Index at = extra + 1;
    int32_t sizes[8], block[24];
    float* from = const_cast<float*>(block_of(a, starts, at, axes, sizes));
    long apart = 1;
    for (int k = axes; k--;) {
        block[3 * k] = sizes[k];
        block[3 * k + 1] = put ? at[3 * k + 2] : (int32_t)apart;
        block[3 * k + 2] = put ? (int32_t)apart : at[3 * k + 2];
        apart *= sizes[k];
    }
    if (put)
        move(from, d, block, axes);
    else
        move(d, from, block, axes);
}

// Threefry 2x32, 20 rounds (Salmon et al., 2011).
void random_bits(float* d, const float* key, long n) {
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t* k = (const uint32_t*)key;
    const uint32_t keys[3] = {k[0], k[1], k[0] ^ k[1] ^ 0x1BD11BDAu};
    for (long i = 0; i < n; i++) {
        uint32_t x = (uint32_t)((uint64_t)i >> 32) + keys[0], y = (uint32_t)i + keys[1];
        for (int round = 0; round < 5; round++) {
            for (int t : turns[round & 1]) {
                x += y;
                y = (y << t | y >> (32 - t)) ^ x;
            }
            x += keys[(round + 1) % 3], y += keys[(round + 2) % 3] + (uint32_t)(round + 1);
        }
        ((uint32_t*)d)[i] = x ^ y;
    }
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

void add_to_operand(const Instruction& q, const Frame& f, const Program& p) {
    float** targets = f.targets[q.m];
    if (!targets) return;
    const Words a = find(q.a, f, p);
    for (long l = 0; l < f.lanes; l++)
        if (float* to = targets[f.lane + l]) {
            if (q.a.one && q.n > 1)
                for (long i = 0; i < q.n; i++) to[q.k + i] += *a.of(l);
            else
                kernels().add(to + q.k, a.of(l), q.n);
        }
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

void put_aside(const Instruction& q, const Frame& f, const Program& p) {
    Aside& to = f.asides[q.extra];
    const Words a = find(q.a, f, p), b = find(q.b, f, p);
    for (long l = 0; l < f.lanes; l++, to.rows++) {
        memcpy(to.a + to.rows * q.n, a.of(l), 4 * q.n);
        memcpy(to.b + to.rows * q.m, b.of(l), 4 * q.m);
    }
}

using Cursor = const Instruction*;

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
    f.lane = first, f.lanes = lanes;
    return q.op == WHILE ? at + q.m + q.k : std::accumulate(lengths, lengths + q.n, at);
}

void run(Cursor at, Cursor end, const Program& p, Frame& f) {
    while (at != end) {
        const Instruction& q = *at;
        if ((q.flags & HOIST && f.outside >> hoisted_operand(q.flags) & 1) != f.apart) {
            at++;
            continue;
        }
        if (is_control(q.op)) {
            at = control(at, p, f);
            continue;
        }
        at++;
        if (is_elementwise(q.op)) {
            elementwise(q, f, p);
            continue;
        }
        if (q.op == MATMUL) {
            matmul(q, f, p);
            continue;
        }
        if (q.op == ADD_TO_OPERAND) {
            add_to_operand(q, f, p);
            continue;
        }
        if (q.op == PUT_ASIDE) {
            put_aside(q, f, p);
            continue;
        }
        if (q.op == SCATTER_TO_OPERAND) {
            scatter_to_operand(q, f, p);
            continue;
        }
        const Words d = find(q.d, f, p), a = find(q.a, f, p), b = find(q.b, f, p);
        Index extra = p.extra.data() + q.extra;
        if (q.op == ADD_TO_WEIGHT) {
            for (long l = 0; l < f.lanes; l++) {
                if (q.a.one && q.n > 1)
                    for (long i = 0; i < q.n; i++) d.at[i] += *a.of(l);
                else
                    kernels().add(d.at, a.of(l), q.n);
            }
            continue;
        }
        if (is_reduction(q.op) && d.stride == (long)q.n * q.k && a.stride == (long)q.n * q.m * q.k) {
            const long outer = f.lanes * q.n, from = (long)q.m * q.k;
            in_parts(outer, 1, (double)outer * from, MANY_NUMBERS, [&](long at, long end) {
                reduce(q.op, d.at + at * q.k, a.at + at * from, end - at, q.m, q.k);
            });
            continue;
        }
        for (long l = 0; l < f.lanes; l++) {
            float *to = d.of(l), *from = a.of(l);
            if (is_reduction(q.op))
                reduce(q.op, to, from, q.n, q.m, q.k);
            else if (is_scan(q.op))
                scan(q.op, to, from, q.n, q.m, q.k, q.flags & REVERSED);
            else
                switch (q.op) {
                    case MOVE: move(to, from, extra + 1, extra[0]); break;
                    case SLICE_AT: slice_at(to, from, b.of(l), extra, false); break;
                    case PUT_AT: slice_at(from, to, b.of(l), extra, true); break;
                    case SORT_ORDER: sort_order(to, from, q.n, q.m, q.flags); break;
                    case TAKE: take(to, from, b.of(l), q.n, q.m, q.k); break;
                    case ADD_AT: add_at(to, from, b.of(l), q.n, q.m, q.k); break;
                    case RANDOM_BITS: random_bits(to, from, q.n); break;
                    case GATHER:
                        gather(to, from, (const int32_t*)b.of(l), find(q.c, f, p).of(l), extra, q.n,
                               q.flags & CLIPPED);
                        break;
                    case SCATTER:
                        scatter(to, from, (const int32_t*)b.of(l), extra, q.n, q.flags & CLIPPED,
                                q.flags & INTS);
                        break;
                    case CONVOLVE: convolve(to, from, b.of(l), extra); break;
                    case POOL: pool(to, from, extra); break;
                    case POOL_BACK: pool_back(to, from, b.of(l), extra); break;
                    case FACTORISE:
                    case SOLVE_TRIANGLE:
                    case CHOLESKY: matrices(q, to, from, b.of(l)); break;
                }
        }
    }
}

}  // namespace

void run(const std::vector<Instruction>& code, const Program& p, Frame& f) {
    run(code.data(), code.data() + code.size(), p, f);
}

void product(float* d, long ldd, const float* a, long ai, long ak, const float* b, long bk, long bj,
             long rows, long count, long columns, bool more) {
    const double work = (double)rows * count * columns;
    if (columns == 1 && rows > 1 && ldd == 1)  // columns are few
        return in_parts(rows, 64, work, MANY_PRODUCTS, [&](long at, long end) {
            product_of_some(d + at, ldd, a + at * ai, ai, ak, b, bk, bj, end - at, count, columns, more);
        });
    in_parts(columns, 64, work, MANY_PRODUCTS, [&](long at, long end) {
        product_of_some(d + at, ldd, a, ai, ak, b + at * bj, bk, bj, rows, count, end - at, more);
    });
}
