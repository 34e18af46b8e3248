// Numbers that go to other places: blocks, sorted orders, numbers by their places; random bits.
#pragma once

#include <cstdint>

// d = a block of up to 8 axes; `at` has of each its size, and how far apart numbers are in d and in a.
void move(float* d, const float* a, const int32_t* at, int axes);
// d = the block of a that begins at `starts`, moved so that it is in a; or if it `puts`, what a has goes to
// d. `extra` is that of SLICE_AT.
void slice_at(float* d, float* a, const float* starts, const int32_t* extra, bool puts);
// d = the order that sorts each row of a[outer, count].
void sort_order(float* d, const float* a, long outer, long count, int flags);
// d[outer, count] = a[outer, b[outer, count]], of `room` numbers; NaN where there is none.
void take(float* d, const float* a, const float* b, long outer, long count, long room);
// d[outer, a[outer, count]] += b[outer, count], of `room` numbers.
void add_at(float* d, const float* a, const float* b, long outer, long count, long room);
// Threefry of each number from 0 on.
void random_bits(float* d, const float* key, long n);
