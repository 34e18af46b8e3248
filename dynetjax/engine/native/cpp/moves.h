// Blocks that go to other places, sorted orders, random bits.
#pragma once

#include <cstdint>

// d = a block of up to 8 axes; `at` has of each its size, and how far apart numbers are in d and in a.
void move(float* d, const float* a, const int32_t* at, int axes);
// d = the order that sorts each row of a[outer, count].
void sort_order(float* d, const float* a, long outer, long count, bool ints);
// Threefry of each number from 0 on.
void random_bits(float* d, const float* key, long n);
