// The kernels for each level of processors, and which level this one has.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

namespace {

double log_gamma_of_positive(double x) {
    // Lanczos' approximation, g = 7, n = 9: 1e-15 relative.
    static const double terms[] = {0.99999999999980993,  676.5203681218851,     -1259.1392167224028,
                                   771.32342877765313,   -176.61502916214059,   12.507343278686905,
                                   -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
    x -= 1;
    double sum = terms[0];
    for (int i = 1; i < 9; i++) sum += terms[i] / (x + i);
    const double t = x + 7.5;
    return 0.91893853320467274178 + (x + 0.5) * std::log(t) - t + std::log(sum);
}
// lgamma of the C library writes a global sign, so it is not for several threads.
float log_gamma(float a) {
    if (std::isnan(a)) return a;
    if (std::isinf(a)) return INFINITY;
    if (a == 1 || a == 2) return 0;
    if (a >= 0.5f) return (float)log_gamma_of_positive(a);
    if (a == std::floor(a)) return INFINITY;
    const double pi = 3.14159265358979323846, x = a;
    return (float)(std::log(pi / std::fabs(std::sin(pi * x))) - log_gamma_of_positive(1 - x));
}
float digamma(float a) {
    if (std::isnan(a) || a == -INFINITY) return NAN;
    if (a == INFINITY) return a;
    if (a <= 0 && a == std::floor(a)) return NAN;
    const double pi = 3.14159265358979323846;
    double x = a, found = 0;
    if (x < 0.5) {
        found = -pi / std::tan(pi * x);
        x = 1 - x;
    }
    for (; x < 8; x += 1) found -= 1 / x;
    const double y = 1 / (x * x);
    return (float)(found + std::log(x) - 0.5 / x -
                   y * (1. / 12 - y * (1. / 120 - y * (1. / 252 - y * (1. / 240 - y * (1. / 132))))));
}

#define PER_LEVEL "kernels.inc"
#include "levels.inc"

#if defined(__x86_64__) && defined(__GNUC__)
// Whether the processor, and the system that saves its registers, have what a level needs. The
// compilers' own functions for it need parts of libraries that not all of them bring.
bool has_bits(unsigned word, std::initializer_list<int> bits) {
    return std::all_of(bits.begin(), bits.end(), [&](int bit) { return word >> bit & 1; });
}
Level level_of_processor() {
    unsigned a, b, c, d, saved, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_bits(c, {12, 27, 28}))
        return Level::PLAIN;  // fma, xgetbv, avx
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!has_bits(saved, {1, 2}) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return Level::PLAIN;
    if (!has_bits(b, {3, 5, 8})) return Level::PLAIN;  // bmi, avx2, bmi2
    const bool wide =
        has_bits(saved, {5, 6, 7}) && has_bits(b, {16, 17, 28, 30, 31});  // avx512 f, dq, cd, bw, vl
    return wide ? Level::V4 : Level::V3;
}
#else
Level level_of_processor() { return Level::PLAIN; }
#endif

Level find_level() {
    const char* asked = std::getenv("DYNETJAX_LEVEL");  // tests ask for each
    if (asked && !std::strcmp(asked, "plain")) return Level::PLAIN;
    const Level found = level_of_processor();
    return asked && !std::strcmp(asked, "x86-64-v3") ? std::min(found, Level::V3) : found;
}

}  // namespace

Level level() {
    static const Level found = find_level();
    return found;
}

const Kernels& kernels() { return BEST(table); }
