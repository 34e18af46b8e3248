// Blocks of arrays that begin at places which are data.
#include "blocks.h"

#include <algorithm>

#include "moves.h"

namespace {

using Index = const int32_t*;

// Where a block begins; -1: nowhere.
long begin_of(Index places, Index axes, int count, bool clip) {
    long at = 0;
    for (int k = 0; k < count; k++, axes += 2) {
        const int32_t place = clip ? std::min(std::max(places[k], 0), axes[0]) : places[k];
        if (place < 0 || place > axes[0]) return -1;
        at += (long)place * axes[1];
    }
    return at;
}

// f(a number of the block, the same of the whole)
template <class F>
void each(const float* block, float* whole, Index axes, int count, const F& f) {
    if (!count) return f(*block, *whole);
    for (long i = 0; i < axes[0]; i++)
        each(block + i * axes[1], whole + i * axes[2], axes + 3, count - 1, f);
}

template <class T, class F>
void change(float& x, float by, const F& f) {
    T a, b;
    __builtin_memcpy(&a, &x, 4);
    __builtin_memcpy(&b, &by, 4);
    a = f(a, b);
    __builtin_memcpy(&x, &a, 4);
}

struct Layout {
    int placed;
    Index places;
    int axes;
    Index block;
    long size = 1;
    explicit Layout(Index extra)
        : placed(extra[0]), places(extra + 1), axes(places[2 * placed]), block(places + 2 * placed + 1) {
        for (int k = 0; k < axes; k++) size *= block[3 * k];
    }
};

template <class T, class Add, class Mul>
void scatter_as(float* d, const float* a, Index places, const Layout& x, long count, bool clip, Add add,
                Mul mul) {
    for (long n = 0; n < count; n++, a += x.size, places += x.placed) {
        const long begin = begin_of(places, x.places, x.placed, clip);
        if (begin < 0) continue;
        auto go = [&](auto f) {
            each(a, d + begin, x.block, x.axes, [&](float by, float& to) { change<T>(to, by, f); });
        };
        switch ((How)x.block[3 * x.axes]) {
            case How::SET: go([](T, T b) { return b; }); break;
            case How::ADD: go(add); break;
            case How::MUL: go(mul); break;
            case How::MIN: go([](T a, T b) { return a < b || a != a ? a : b; }); break;
            case How::MAX: go([](T a, T b) { return a > b || a != a ? a : b; }); break;
        }
    }
}

}  // namespace

void gather(float* d, const float* a, const int32_t* places, const float* fill, const int32_t* extra,
            long count, bool clip) {
    const Layout x(extra);
    for (long n = 0; n < count; n++, d += x.size, places += x.placed) {
        const long begin = begin_of(places, x.places, x.placed, clip);
        if (begin < 0)
            std::fill(d, d + x.size, *fill);
        else
            move(d, a + begin, x.block, x.axes);
    }
}

void scatter(float* d, const float* a, const int32_t* places, const int32_t* extra, long count, bool clip,
             bool ints) {
    const Layout x(extra);
    if (ints) {
        auto add = [](int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); };
        auto mul = [](int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); };
        return scatter_as<int32_t>(d, a, places, x, count, clip, add, mul);
    }
    scatter_as<float>(
        d, a, places, x, count, clip, [](float a, float b) { return a + b; },
        [](float a, float b) { return a * b; });
}

Blocks blocks_of(const int32_t* extra, long given, bool scatters) {
    Blocks found;
    auto fail = [&](const char* what) {
        found.wrong = what;
        return found;
    };
    if (given < 1 || extra[0] < 0 || extra[0] > 8 || given < 2 + 2L * extra[0])
        return fail("too many axes, or extra is too short");
    found.placed = extra[0];
    const int32_t* at = extra + 1;
    for (int k = 0; k < found.placed; k++, at += 2) {
        if (at[0] < 0 || at[1] < 0) return fail("a block is larger than what it is of");
        found.whole += (long)at[0] * at[1];
        if (found.whole > 1L << 40) return fail("a block is larger than what it is of");
    }
    const int axes = *at++;
    if (axes < 0 || axes > 8 || given < 2 + 2L * found.placed + 3L * axes + scatters)
        return fail("too many axes, or extra is too short");
    long size = 1;
    for (int k = axes; k--;) {
        const int32_t* x = at + 3 * k;
        if (x[0] <= 0 || x[2] < 0 || x[1] != size || (long)x[0] * size > 1L << 30)
            return fail("a block is not side by side");
        size *= x[0];
        found.whole += (x[0] - 1L) * x[2];
        if (found.whole > 1L << 40) return fail("a block is larger than what it is of");
    }
    if (scatters && (at[3 * axes] < 0 || at[3 * axes] > (int)How::MAX)) return fail("no such change");
    found.adds = scatters && at[3 * axes] == (int)How::ADD;
    found.block = size;
    found.whole += 1;
    return found;
}
