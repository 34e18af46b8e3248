// Discrete Fourier transforms.
#pragma once

#include <vector>

// Of n complex numbers, real parts first: forwards, or backwards, which divides by n.
void fourier(float* d, const float* a, long n, bool back);
// Of n real numbers: the first n / 2 + 1 complex ones, real parts first.
void fourier_of_real(float* d, const float* a, long n);
// Back to n real numbers from these.
void fourier_to_real(float* d, const float* a, long n);
