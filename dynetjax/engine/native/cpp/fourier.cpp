// Discrete Fourier transforms in float64: by the prime factors of the length.
#include "fourier.h"

#include <cmath>
#include <complex>

namespace {

using Number = std::complex<double>;
using Numbers = std::vector<Number>;

long smallest_factor(long n) {
    for (long f = 2; f * f <= n; f++)
        if (n % f == 0) return f;
    return n;
}

Number times(Number a, Number b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// d[k] = sum over j of a[j * apart] root^(j k); `roots` are the powers of a root of 1 of which the
// n-th is the one that is `step` on.
void transform(Number* d, const Number* a, long n, long apart, const Numbers& roots, long step) {
    if (n == 1) {
        *d = *a;
        return;
    }
    const long f = smallest_factor(n), part = n / f, all = (long)roots.size();
    for (long j = 0; j < f; j++) transform(d + j * part, a + j * apart, part, apart * f, roots, step * f);
    Numbers found(f);
    for (long k = 0; k < part; k++) {
        for (long i = 0; i < f; i++) {
            const long turn = (k + i * part) * step % all;
            Number sum = d[k];
            for (long j = 1; j < f; j++) sum += times(d[j * part + k], roots[turn * j % all]);
            found[i] = sum;
        }
        for (long i = 0; i < f; i++) d[i * part + k] = found[i];
    }
}

Numbers transformed(const Numbers& a, bool back) {
    const long n = (long)a.size();
    Numbers roots(n), d(n);
    for (long k = 0; k < n; k++) {
        const double turn = (back ? 2 : -2) * 3.14159265358979323846 * (double)k / (double)n;
        roots[k] = {std::cos(turn), std::sin(turn)};
    }
    transform(d.data(), a.data(), n, 1, roots, 1);
    if (back)
        for (Number& x : d) x /= (double)n;
    return d;
}

void store(float* d, const Numbers& a, long n) {
    for (long k = 0; k < n; k++) d[k] = (float)a[k].real(), d[n + k] = (float)a[k].imag();
}

}  // namespace

void fourier(float* d, const float* a, long n, bool back) {
    Numbers x(n);
    for (long k = 0; k < n; k++) x[k] = {a[k], a[n + k]};
    store(d, transformed(x, back), n);
}

void fourier_of_real(float* d, const float* a, long n) {
    store(d, transformed(Numbers(a, a + n), false), n / 2 + 1);
}

void fourier_to_real(float* d, const float* a, long n) {
    const long half = n / 2 + 1;
    Numbers x(n);
    for (long k = 0; k < n;
         k++) {  // the others are these turned over; the first is real, and the middle one
        const long at = k < half ? k : n - k;
        const bool real = k == 0 || 2 * k == n;
        x[k] = {a[at], real ? 0. : k < half ? a[half + at] : -a[half + at]};
    }
    const Numbers found = transformed(x, true);
    for (long k = 0; k < n; k++) d[k] = (float)found[k].real();
}
