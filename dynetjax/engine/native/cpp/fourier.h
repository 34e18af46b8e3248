// Discrete Fourier transforms.
#pragma once

#include <utility>
#include <vector>

// Of n complex numbers, real parts first: forwards, or backwards, which divides by n.
void fourier(float* d, const float* a, long n, bool back);
// Of n real numbers: the first n / 2 + 1 complex ones, real parts first.
void fourier_of_real(float* d, const float* a, long n);
// Back to n real numbers from these.
void fourier_to_real(float* d, const float* a, long n);
// Words of one line that FOURIER reads, and that it makes.
inline std::pair<long, long> fourier_words(long m, long kind) {
    const long real = m, half = 2 * (m / 2 + 1), all = 2 * m;
    return kind < 2    ? std::make_pair(all, all)
           : kind == 2 ? std::make_pair(real, half)
                       : std::make_pair(half, real);
}
