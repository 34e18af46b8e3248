// Blocks that go to other places, sorted orders, random bits.
#include "moves.h"

#include <algorithm>
#include <cstring>
#include <numeric>

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

// The order of JAX: -inf first, -0 and 0 alike, NaN last. Equal numbers stay as they come.
void sort_order(float* d, const float* a, long outer, long count, bool ints) {
    const auto before = [](float x, float y) { return x == x && (y != y || x < y); };
    for (long o = 0; o < outer; o++, d += count, a += count) {
        int32_t* order = (int32_t*)d;
        const int32_t* x = (const int32_t*)a;
        std::iota(order, order + count, 0);
        if (ints)
            std::stable_sort(order, order + count, [x](int32_t i, int32_t j) { return x[i] < x[j]; });
        else
            std::stable_sort(order, order + count,
                             [a, before](int32_t i, int32_t j) { return before(a[i], a[j]); });
    }
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
