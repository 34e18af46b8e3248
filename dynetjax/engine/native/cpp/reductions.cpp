// Reductions and running totals along an axis.
#include "reductions.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

#include "kernels.h"

namespace {

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

// Where the first number is that comes before all others.
template <class T, class F>
void first_of(float* d, const float* a_, long outer, long count, long inner, F comes_before) {
    int32_t* to = (int32_t*)d;
    const T* a = (const T*)a_;
    for (long o = 0; o < outer; o++, to += inner, a += count * inner)
        for (long i = 0; i < inner; i++) {
            long best = 0;
            for (long c = 1; c < count; c++)
                if (comes_before(a[c * inner + i], a[best * inner + i])) best = c;
            to[i] = (int32_t)best;
        }
}
bool is_nan_alone(float a, float b) { return a != a && b == b; }

}  // namespace

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
        case ARGMAX_I: return first_of<int32_t>(d, a, outer, count, inner, std::greater<>());
        case ARGMIN_I: return first_of<int32_t>(d, a, outer, count, inner, std::less<>());
        case ARGMAX:
            return first_of<float>(d, a, outer, count, inner,
                                   [](float x, float y) { return x > y || is_nan_alone(x, y); });
        case ARGMIN:
            return first_of<float>(d, a, outer, count, inner,
                                   [](float x, float y) { return x < y || is_nan_alone(x, y); });
    }
}

namespace {

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

}  // namespace

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
