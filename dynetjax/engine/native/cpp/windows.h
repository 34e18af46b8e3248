// Windows that move over an array: convolutions, pooling, and what goes back through it.
#pragma once

#include <cstdint>
#include <string>

// `extra` of CONVOLVE: batch, groups, channels that a group reads, channels that it makes, then how
// many axes, and of each: the size of a, of a window and of d; steps between windows; the padding
// before a; how far apart numbers of a and of a window are, zeros or nothing being between.
// a[batch, groups, reads, *axes], b[groups, makes, reads, *window], d[batch, groups, makes, *axes].
void convolve(float* d, const float* a, const float* b, const int32_t* extra);

// `extra` of POOL, POOL_BACK: what is found of a window, how many axes, and of each as above.
#define DYNETJAX_POOLS(X) X(SUM) X(MAX) X(MIN)
#define X(name) name,
enum class Pool : int { DYNETJAX_POOLS(X) };
#undef X
void pool(float* d, const float* a, const int32_t* extra);
// d, which is zero, gets the numbers b of windows where these have the first of their largest (MAX)
// or least number of a.
void pool_back(float* d, const float* a, const float* b, const int32_t* extra);

// What is wrong with `extra`, of which there are `given`; else "", and how many numbers there are.
struct Windows {
    long whole = 1, window = 1, made = 1;  // a's, a window's, d's; of one channel
    long a = 0, b = 0, d = 0;              // of all, for CONVOLVE
    std::string wrong;
};
Windows windows_of(const int32_t* extra, long given, bool convolves);
