// Numbers that go to other places: blocks, sorted orders, numbers by their places; random bits.
#include "moves.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "opcodes.h"

using Index = const int32_t*;

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

namespace {

// A block of `a` that begins at the places `starts`, or as near as it can.
const float* block_of(const float* a, const float* starts, Index at, int axes, int32_t* sizes) {
    for (int k = 0; k < axes; k++, at += 3) {
        const int32_t start = ((const int32_t*)starts)[k];
        a += (long)std::min(std::max(start, 0), at[1] - at[0]) * at[2];
        sizes[k] = at[0];
    }
    return a;
}
}  // namespace

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
            x += keys[(round + 1) % 3];
            y += keys[(round + 2) % 3] + (uint32_t)(round + 1);
        }
        ((uint32_t*)d)[i] = x ^ y;
    }
}
