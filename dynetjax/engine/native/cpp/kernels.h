// What the interpreter spends its time in, compiled for several levels of processors.
#pragma once

// A loop each of whose turns could come first, and one that is to be written out.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // loops that call the C library
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define UNROLLED _Pragma("clang loop unroll(full)") for
#else
#define INDEPENDENT _Pragma("GCC ivdep") _Pragma("GCC unroll 4")
#define UNROLLED _Pragma("GCC unroll 16") for
#endif

#include "opcodes.h"

// Word by word: d[i] = f(a[i], b[i], c[i]); bit 0, 1, 2 of `scalars` is set where a, b, c
// is one word for all. d may be where an operand is.
using Elementwise = void (*)(float* d, const float* a, const float* b, const float* c, long n, int scalars);

// C[i, j] = or += sum over k of A(i, k) B(k, j), where rows of C are `ldc` apart and their
// numbers side by side.
struct Kernels {
    const char* level;
    Elementwise elementwise[SELECT + 1];
    // d[i] += a[i]
    void (*add)(float* d, const float* a, long n);
    // A(i, k) is A[i * ai + k * ak], B(k, j) is B[k * ldb + j].
    void (*product)(float* C, long ldc, const float* A, long ai, long ak, const float* B, long ldb,
                    long rows, long count, long columns, bool add);
    // A(i, k) is A[i * lda + k], B(k, j) is B[j * ldb + k]: products of rows with rows.
    void (*dots)(float* C, long ldc, const float* A, long lda, const float* B, long ldb, long rows,
                 long count, long columns, bool add);
    // The sum of n numbers, and of their squares.
    float (*sum)(const float* a, long n);
    double (*squares)(const float* a, long n);
};

// The best for this processor.
const Kernels& kernels();

// The levels of x86-64 that code is compiled for; elsewhere there is only the plain one.
enum class Level { PLAIN, V3, V4 };
// The best that this processor has, but for DYNETJAX_LEVEL, which names a lower one.
Level level();
