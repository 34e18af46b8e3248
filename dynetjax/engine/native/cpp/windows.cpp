// Windows that move over an array, by plain loops.
#include "windows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

constexpr int WORDS = 7, MOST = 6;  // of an axis; axes

struct Axis {
    int32_t whole, window, made, step, before, apart, spread;
};

// Places of one window: f(where in a, where in the window), for those that are in a.
template <class F>
void inside(const Axis* axes, int count, const long* at, long a, long w, const F& f) {
    if (!count) return f(a, w);
    const Axis& x = *axes;
    for (long k = 0; k < x.window; k++) {
        const long place = *at * x.step + k * x.spread - x.before;
        if (place < 0 || place % x.apart || place / x.apart >= x.whole) continue;
        inside(axes + 1, count - 1, at + 1, a * x.whole + place / x.apart, w * x.window + k, f);
    }
}

// f(window's number, its places along each axis), for all windows.
template <class F>
void windows(const Axis* axes, int count, const F& f) {
    long at[MOST] = {}, total = 1;
    for (int k = 0; k < count; k++) total *= axes[k].made;
    for (long n = 0; n < total; n++) {
        f(n, at);
        for (int k = count; k-- && ++at[k] == axes[k].made;) at[k] = 0;
    }
}

long sizes(const Axis* axes, int count, int32_t Axis::* which) {
    long n = 1;
    for (int k = 0; k < count; k++) n *= axes[k].*which;
    return n;
}

}  // namespace

void convolve(float* d, const float* a, const float* b, const int32_t* extra) {
    const long batch = extra[0], groups = extra[1], reads = extra[2], makes = extra[3];
    const int count = extra[4];
    const Axis* axes = (const Axis*)(extra + 5);
    const long whole = sizes(axes, count, &Axis::whole), window = sizes(axes, count, &Axis::window),
               made = sizes(axes, count, &Axis::made);
    std::fill(d, d + batch * groups * makes * made, 0.f);
    windows(axes, count, [&](long n, const long* at) {
        inside(axes, count, at, 0, 0, [&](long place, long w) {
            for (long i = 0; i < batch * groups; i++) {
                const float *from = a + i * reads * whole + place,
                            *by = b + i % groups * makes * reads * window + w;
                float* to = d + i * makes * made + n;
                for (long m = 0; m < makes; m++)
                    for (long r = 0; r < reads; r++)
                        to[m * made] += from[r * whole] * by[(m * reads + r) * window];
            }
        });
    });
}

void pool(float* d, const float* a, const int32_t* extra) {
    const Pool what = (Pool)extra[0];
    const int count = extra[1];
    const Axis* axes = (const Axis*)(extra + 2);
    const float none = std::numeric_limits<float>::infinity();
    windows(axes, count, [&](long n, const long* at) {
        float found = what == Pool::SUM ? 0.f : what == Pool::MAX ? -none : none;
        inside(axes, count, at, 0, 0, [&](long place, long) {
            const float x = a[place];
            if (what == Pool::SUM)
                found += x;
            else if (x != x || (what == Pool::MAX ? x > found : x < found))
                found = x;
        });
        d[n] = found;
    });
}

void pool_back(float* d, const float* a, const float* b, const int32_t* extra) {
    const bool largest = (Pool)extra[0] == Pool::MAX;
    const int count = extra[1];
    const Axis* axes = (const Axis*)(extra + 2);
    windows(axes, count, [&](long n, const long* at) {
        long best = -1;
        inside(axes, count, at, 0, 0, [&](long place, long) {
            const bool stays = best >= 0 && (largest ? a[best] >= a[place] : a[best] <= a[place]);
            if (!stays) best = place;  // also of NaN, as XLA goes on from there
        });
        if (best >= 0) d[best] += b[n];
    });
}

Windows windows_of(const int32_t* extra, long given, bool convolves) {
    Windows found;
    auto fail = [&](const char* what) {
        found.wrong = what;
        return found;
    };
    const int before = convolves ? 4 : 1;
    if (given <= before || extra[before] < 0 || extra[before] > MOST ||
        given < before + 1 + (long)WORDS * extra[before])
        return fail("too many axes, or extra is too short");
    const long most = 1L << 30;
    auto grow = [&](long& n, long by) {
        n = by > 0 && n <= most / by ? n * by : (found.wrong = "a size is none, or too large", n);
    };
    const Axis* axes = (const Axis*)(extra + before + 1);
    for (int k = 0; k < extra[before]; k++) {
        const Axis& x = axes[k];
        if (x.step <= 0 || x.apart <= 0 || x.spread <= 0) return fail("windows do not move");
        grow(found.whole, x.whole);
        grow(found.window, x.window);
        grow(found.made, x.made);
    }
    if (!convolves) return extra[0] < 0 || extra[0] > (int)Pool::MIN ? fail("no such pool") : found;
    found.a = found.whole;
    found.b = found.window;
    found.d = found.made;
    for (int k : {0, 1}) grow(found.a, extra[k]), grow(found.d, extra[k]);
    grow(found.b, extra[1]);
    grow(found.a, extra[2]);
    grow(found.b, extra[2]);
    grow(found.b, extra[3]);
    grow(found.d, extra[3]);
    return found;
}
