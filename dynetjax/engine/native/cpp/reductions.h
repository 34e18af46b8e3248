// Reductions and running totals along an axis.
#pragma once

// Of a[outer, count, inner] along the middle: d[outer, inner]. `op` is one of REDUCTION in opcodes.h.
void reduce(int op, float* d, const float* a, long outer, long count, long inner);
// As many results, of an `op` of SCAN; from the last number on if it is `reversed`.
void scan(int op, float* d, const float* a, long outer, long count, long inner, bool reversed);
