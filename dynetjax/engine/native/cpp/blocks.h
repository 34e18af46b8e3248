// Blocks of arrays that begin at places which are data.
#pragma once

#include <cstdint>
#include <string>

// `extra` of GATHER and SCATTER: the axes along which blocks are placed, and of each the
// last place of a block and how far apart numbers are; then the axes of a block, and of
// each its size, and how far apart its numbers are side by side and in the whole; for SCATTER,
// then what it does.
#define DYNETJAX_SCATTERS(X) X(SET) X(ADD) X(MUL) X(MIN) X(MAX)
#define X(name) name,
enum class How : int { DYNETJAX_SCATTERS(X) };
#undef X

// count blocks of `a`, side by side; `fill` where a place is none, unless places are clipped.
void gather(float* d, const float* a, const int32_t* places, const float* fill, const int32_t* extra,
            long count, bool clip);
// Blocks of `a` go to their places of d, but for those whose place is none.
void scatter(float* d, const float* a, const int32_t* places, const int32_t* extra, long count, bool clip,
             bool ints);

// What is wrong with `extra`, of which there are `given`; else "", how many words a block and the
// whole have, and along how many axes blocks are placed.
struct Blocks {
    long block = 0, whole = 0;
    int placed = 0;
    bool adds = false;  // what a scatter does
    std::string wrong;
};
Blocks blocks_of(const int32_t* extra, long given, bool scatters);
