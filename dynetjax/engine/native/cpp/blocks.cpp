// Blocks of arrays that begin at places which are data.
#include "blocks.h"

#include <algorithm>
#include <functional>

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
    const long n = axes[0], apart = axes[1], far = axes[2];
    if (count == 1) {
        for (long i = 0; i < n; i++) f(block[i * apart], whole[i * far]);
        return;
    }
    for (long i = 0; i < n; i++) each(block + i * apart, whole + i * far, axes + 3, count - 1, f);
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

// f(where a block is among all, where it begins in the whole; -1: nowhere)
template <class F>
void each_block(const Layout& x, Index places, long count, bool clip, const F& f) {
    for (long n = 0; n < count; n++, places += x.placed)
        f(n * x.size, begin_of(places, x.places, x.placed, clip));
}

template <class T, class Add, class Mul>
void change_by(float* to, const float* from, const Layout& x, How how, Add add, Mul mul) {
    const auto go = [&](auto f) {
        each(from, to, x.block, x.axes, [&](float by, float& number) { change<T>(number, by, f); });
    };
    switch (how) {
        case How::SET: return;
        case How::ADD: return go(add);
        case How::MUL: return go(mul);
        case How::MIN: return go([](T a, T b) { return a < b || a != a ? a : b; });
        case How::MAX: return go([](T a, T b) { return a > b || a != a ? a : b; });
    }
}

int32_t add_ints(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
int32_t multiply_ints(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }

}  // namespace

void gather(float* d, const float* a, const int32_t* places, const float* fill, const int32_t* extra,
            long count, bool clip) {
    const Layout x(extra);
    each_block(x, places, count, clip, [&](long at, long begin) {
        if (begin < 0)
            std::fill(d + at, d + at + x.size, *fill);
        else
            move(d + at, a + begin, x.block, x.axes);
    });
}

void scatter(float* d, const float* a, const int32_t* places, const int32_t* extra, long count, bool clip,
             bool ints) {
    const Layout x(extra);
    const How how = (How)x.block[3 * x.axes];
    int32_t into[24];  // as `move` takes a block
    for (int k = 0; k < x.axes; k++) {
        into[3 * k] = x.block[3 * k];
        into[3 * k + 1] = x.block[3 * k + 2];
        into[3 * k + 2] = x.block[3 * k + 1];
    }
    each_block(x, places, count, clip, [&](long at, long begin) {
        if (begin < 0) return;
        if (how == How::SET)
            move(d + begin, a + at, into, x.axes);
        else if (ints)
            change_by<int32_t>(d + begin, a + at, x, how, add_ints, multiply_ints);
        else
            change_by<float>(d + begin, a + at, x, how, std::plus<>(), std::multiplies<>());
    });
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
