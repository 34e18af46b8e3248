// The instructions of tier 0, each with its operands and what it computes.
//
// An instruction runs on L lanes: nodes of one fused op, or elements of a batch, whose
// rows lie side by side. What is said here is said of one lane. All numbers are words of
// 32 bits: float, int, unsigned, or bool (0 or 1). `d` is the result, `a`, `b` and `c`
// are operands. From this table come the checks of byte code (verifier.cpp), what Python
// knows of it (`core.RULES`), what `explain` shows, and the page docs/bytecode.md.
#pragma once

#include <algorithm>

// Of n numbers, one by one: d[i] = f(a[i]).
#define DYNETJAX_UNARY(X)                                              \
    X(COPY, "d = a, any kind of number")                               \
    X(NEG, "d = -a")                                                   \
    X(ABS, "d = |a|")                                                  \
    X(SIGN, "d = the sign of a; 0 and NaN stay")                       \
    X(EXP, "d = exp(a)")                                               \
    X(EXP2, "d = 2^a")                                                 \
    X(EXPM1, "d = exp(a) - 1")                                         \
    X(LOG, "d = log(a)")                                               \
    X(LOG1P, "d = log(1 + a)")                                         \
    X(TANH, "d = tanh(a)")                                             \
    X(LOGISTIC, "d = 1 / (1 + exp(-a))")                               \
    X(SQRT, "d = sqrt(a)")                                             \
    X(RSQRT, "d = 1 / sqrt(a)")                                        \
    X(CBRT, "d = the cube root of a")                                  \
    X(SQUARE, "d = a a")                                               \
    X(FLOOR, "d = the largest integer up to a")                        \
    X(CEIL, "d = the least integer from a on")                         \
    X(ROUND, "d = the nearest integer, halves away from 0")            \
    X(ROUND_EVEN, "d = the nearest integer, halves to the even one")   \
    X(SIN, "d = sin(a)")                                               \
    X(COS, "d = cos(a)")                                               \
    X(TAN, "d = tan(a)")                                               \
    X(ASIN, "d = asin(a)")                                             \
    X(ACOS, "d = acos(a)")                                             \
    X(ATAN, "d = atan(a)")                                             \
    X(SINH, "d = sinh(a)")                                             \
    X(COSH, "d = cosh(a)")                                             \
    X(ASINH, "d = asinh(a)")                                           \
    X(ACOSH, "d = acosh(a)")                                           \
    X(ATANH, "d = atanh(a)")                                           \
    X(ERF, "d = erf(a)")                                               \
    X(ERFC, "d = 1 - erf(a)")                                          \
    X(ERF_INV, "d = the inverse of erf at a (Giles, 2010)")            \
    X(LGAMMA, "d = log |gamma(a)|")                                    \
    X(DIGAMMA, "d = the derivative of log gamma at a")                 \
    X(IS_FINITE, "d = whether a is neither infinite nor NaN")          \
    X(NEG_I, "d = -a, of ints")                                        \
    X(ABS_I, "d = |a|, of ints")                                       \
    X(SIGN_I, "d = the sign of a, of ints")                            \
    X(POPULATION, "d = how many bits of a are set")                    \
    X(LEADING_ZEROS, "d = how many bits of a come before the first set") \
    X(NOT_I, "d = a with every bit turned over")                       \
    X(NOT_B, "d = 1 - a, of bools")                                    \
    X(F_FROM_I, "d = a as a float, of ints or bools")                  \
    X(F_FROM_U, "d = a as a float, of unsigned ints")                  \
    X(I_FROM_F, "d = a as an int, cut off towards 0")                  \
    X(U_FROM_F, "d = a as an unsigned int, cut off towards 0")         \
    X(B_FROM_F, "d = whether a is not 0")                              \
    X(B_FROM_I, "d = whether a is not 0, of ints")

// Of n numbers, one by one: d[i] = f(a[i], b[i]).
#define DYNETJAX_BINARY(X)                                             \
    X(ADD, "d = a + b")                                                \
    X(SUB, "d = a - b")                                                \
    X(MUL, "d = a b")                                                  \
    X(DIV, "d = a / b")                                                \
    X(REM, "d = the rest of a / b, with the sign of a")                \
    X(MAX, "d = the larger one; NaN if one is")                        \
    X(MIN, "d = the lesser one; NaN if one is")                        \
    X(POW, "d = a^b")                                                  \
    X(ROOT_ADD, "d = sqrt(a) + b")                                     \
    X(ATAN2, "d = the angle of the point (b, a)")                      \
    X(NEXTAFTER, "d = the float next to a on the way to b")            \
    X(EQ, "d = whether a = b")                                         \
    X(NE, "d = whether a is not b")                                    \
    X(LT, "d = whether a < b")                                         \
    X(LE, "d = whether a <= b")                                        \
    X(GT, "d = whether a > b")                                         \
    X(GE, "d = whether a >= b")                                        \
    X(ADD_I, "d = a + b, of ints, modulo 2^32")                        \
    X(SUB_I, "d = a - b, of ints, modulo 2^32")                        \
    X(MUL_I, "d = a b, of ints, modulo 2^32")                          \
    X(DIV_I, "d = a / b, of ints, towards 0; -1 if b is 0")            \
    X(REM_I, "d = the rest of a / b, of ints; a if b is 0")            \
    X(MAX_I, "d = the larger one, of ints")                            \
    X(MIN_I, "d = the lesser one, of ints")                            \
    X(EQ_I, "d = whether a = b, of ints")                              \
    X(NE_I, "d = whether a is not b, of ints")                         \
    X(LT_I, "d = whether a < b, of ints")                              \
    X(LE_I, "d = whether a <= b, of ints")                             \
    X(GT_I, "d = whether a > b, of ints")                              \
    X(GE_I, "d = whether a >= b, of ints")                             \
    X(DIV_U, "d = a / b, of unsigned ints; all bits if b is 0")        \
    X(REM_U, "d = the rest of a / b, of unsigned ints; a if b is 0")   \
    X(MAX_U, "d = the larger one, of unsigned ints")                   \
    X(MIN_U, "d = the lesser one, of unsigned ints")                   \
    X(LT_U, "d = whether a < b, of unsigned ints")                     \
    X(LE_U, "d = whether a <= b, of unsigned ints")                    \
    X(GT_U, "d = whether a > b, of unsigned ints")                     \
    X(GE_U, "d = whether a >= b, of unsigned ints")                    \
    X(AND, "d = the bits that both have")                              \
    X(OR, "d = the bits that one has")                                 \
    X(XOR, "d = the bits in which they differ")                        \
    X(SHL, "d = a 2^b, of bits; 0 if b is 32 or more")                 \
    X(SHR, "d = a / 2^b, of bits; 0 if b is 32 or more")               \
    X(SHR_I, "d = a / 2^b, of ints, the sign kept")

// Of n numbers, one by one: d[i] = f(a[i], b[i], c[i]).
#define DYNETJAX_TERNARY(X)                                            \
    X(MUL_MUL, "d = a b c")                                            \
    X(MUL_ADD, "d = a b + c, with one rounding or two")                \
    X(DIV_ROOT, "d = a / (sqrt(b) + c)")                               \
    X(SELECT, "d = b where a is not 0, else c, any kind of number")

// Of numbers a[outer, count, inner] along the middle: d[outer, inner]. n is outer, m is
// count, k is inner.
#define DYNETJAX_REDUCTION(X)                                          \
    X(SUM, "the sum")                                                  \
    X(PRODUCT, "the product")                                          \
    X(LARGEST, "the largest; NaN if one is")                           \
    X(LEAST, "the least; NaN if one is")                               \
    X(SUM_I, "the sum, of ints")                                       \
    X(LARGEST_I, "the largest, of ints")                               \
    X(LEAST_I, "the least, of ints")                                   \
    X(ALL, "whether all are not 0, of bools")                          \
    X(ANY, "whether one is not 0, of bools")                           \
    X(ARGMAX_I, "where the first of the largest is, of ints")          \
    X(ARGMIN_I, "where the first of the least is, of ints")            \
    X(ARGMAX, "where the first of the largest is; of the first NaN")   \
    X(ARGMIN, "where the first of the least is; of the first NaN")

// Of numbers a[outer, count, inner] along the middle, as many results: n, m, k as above.
#define DYNETJAX_SCAN(X)                                               \
    X(CUMSUM, "the sum so far")                                        \
    X(CUMPROD, "the product so far")                                   \
    X(CUMMAX, "the largest so far")                                    \
    X(CUMMIN, "the least so far")                                      \
    X(CUMLOGSUMEXP, "log of the sum of exp so far")                    \
    X(CUMSUM_I, "the sum so far, of ints")

// All others. `by extra`: what `extra` tells is how many words there are.
#define DYNETJAX_OTHER(X)                                              \
    X(MOVE, 0, TOLD(n), TOLD(n), NONE, NONE, \
      "a block of up to 8 axes; extra: n axes, then of each its size, and how far apart its " \
      "numbers are in d and in a") \
    X(MATMUL, ACCUMULATE | HOIST, TOLD(n * k), TOLD(n * m), TOLD(m * k), NONE, \
      "d[B, n, k] = a[B, n, m] b[B, m, k]; extra: B, then how far apart numbers are along each " \
      "axis of a and b") \
    X(PUT_ASIDE, 0, TOLD(n + m), IS(n), IS(m), NONE, \
      "a[n] and b[m], whose outer product is added to gradient d of a weight after the pass; " \
      "extra: which of such products of the fused op") \
    X(ADD_TO_WEIGHT, 0, IS(n), EACH, NONE, NONE, "gradient d of a weight += the sum of a[n] over lanes") \
    X(ADD_TO_OPERAND, HOIST, TOLD(n), EACH, NONE, NONE, \
      "gradient of operand number m, from its number k on, += a[n]") \
    X(SCATTER_TO_OPERAND, CLIPPED, TOLD(n * m), IS(n * m), TOLD(n), NONE, \
      "n blocks a[n, m] are added to the gradient of operand number k at their places b[n, " \
      "axes]; extra: see blocks.h") \
    X(SORT_ORDER, INTS, IS(n * m), IS(n * m), NONE, NONE, \
      "d[outer, count] = the order that sorts a[outer, count]; n is outer, m is count") \
    X(RANDOM_BITS, 0, IS(n), IS(2), NONE, NONE, \
      "d[n] = bits of the key a[2]: threefry of each number from 0 on, its two words xored") \
    X(GATHER, CLIPPED, IS(n * m), TOLD(n * m), TOLD(n), IS(1), \
      "d[n, m] = n blocks of a that begin at places b[n, axes], or c where a place is none; " \
      "extra: see blocks.h") \
    X(SCATTER, CLIPPED | INTS, TOLD(n * m), IS(n * m), TOLD(n), NONE, \
      "n blocks a[n, m] go to their places b[n, axes] of d, and change it; extra: see blocks.h") \
    X(FACTORISE, 0, IS(n * (m * k + m + std::min(m, k))), IS(n * m * k), NONE, NONE, \
      "of each of n matrices a[m, k], the words that it takes: l and u, and as ints the rows " \
      "that changed places, and where each was") \
    X(SOLVE_TRIANGLE, LOWER | UNIT, IS(n * m * k), IS(n * m * m), IS(n * m * k), NONE, \
      "of each of n: d[m, k] for which the triangle a[m, m] d = b[m, k]") \
    X(CHOLESKY, 0, IS(n * m * m), IS(n * m * m), NONE, NONE, \
      "of each of n: the lower triangle d[m, m] for which d times itself turned is a[m, m]")

// What runs blocks of the instructions after it. `d` is no operand.
#define DYNETJAX_CONTROL(X)                                            \
    X(LOOP, 0, NONE, NONE, NONE, NONE, "n times, the next m instructions") \
    X(WHILE, 0, NONE, IS(1), NONE, NONE, \
      "the next m instructions, and while a is not 0, the k after these and the m again; lane " \
      "by lane") \
    X(BRANCH, 0, NONE, IS(1), NONE, NONE, \
      "number a, or the nearest there is, of n blocks of the next instructions; lane by lane; " \
      "extra: how many each has")

enum Opcode : int {
#define X(name, ...) name,
    DYNETJAX_UNARY(X) DYNETJAX_BINARY(X) DYNETJAX_TERNARY(X) DYNETJAX_REDUCTION(X)
    DYNETJAX_SCAN(X) DYNETJAX_OTHER(X) DYNETJAX_CONTROL(X)
#undef X
    OPCODES
};

// A bit each. HOIST: of a product with a weight, or of what adds one to an operand's gradient.
#define DYNETJAX_FLAGS(X)                                              \
    X(ACCUMULATE, 1, "adds to d instead of setting it")                \
    X(REVERSED, 2, "from the last number to the first")                \
    X(INTS, 4, "numbers are ints")                                     \
    X(CLIPPED, 8, "the nearest place where a place is none")          \
    X(LOWER, 16, "the triangle is the lower one")                      \
    X(UNIT, 32, "the diagonal counts as ones")                         \
    X(HOIST, 64, \
      "may be run for all nodes of a recurrence at once, if the operand whose number stands " \
      "from bit 8 on comes from outside")
enum Flag : int {
#define X(name, bit, meaning) name = bit,
    DYNETJAX_FLAGS(X)
#undef X
};
constexpr int HOISTABLE = 32;  // operands, the first of a fused op

inline int hoisted_operand(int flags) { return flags >> 8; }

// Where an operand's words are. The number of a weight, operand, datum or gradient is
// added to the first of its kind.
#define DYNETJAX_SLOTS(X)                                              \
    X(CONSTANT, "the same for all lanes")                              \
    X(TEMPORARY, "of one instruction, until it is last read")          \
    X(SAVED, "of forward, for backward")                               \
    X(VALUE, "of the node: what forward computes")                     \
    X(COTANGENT, "of the node: its gradient")                          \
    X(HOISTED, "what HOIST instructions make in forward, or read in backward") \
    X(FIRST, "weights, then operands, then runtime data, then gradients of weights")
enum Slot : int {
#define X(name, meaning) name,
    DYNETJAX_SLOTS(X)
#undef X
};

// The words of a lane that an operand has: all that is known, or one for all, or what `extra` tells.
enum class Extent { NO, ALL, ANY_OR_ONE, BY_EXTRA };
struct OperandRule {
    Extent extent;
    const char* text;
    double (*words)(double n, double m, double k);  // BY_EXTRA: about
};
enum class Family { UNARY, BINARY, TERNARY, REDUCTION, SCAN, OTHER, CONTROL };
struct OpcodeRule {
    const char *name, *meaning;
    Family family;
    int flags;                // that it may have
    OperandRule operands[4];  // d, a, b, c
};

#define OPERAND(extent, size) \
    {Extent::extent, #size, [](double n, double m, double k) { \
         (void)n, (void)m, (void)k;                            \
         return double(size);                                  \
     }}
#define IS(size) OPERAND(ALL, size)
#define EACH OPERAND(ANY_OR_ONE, n)
#define TOLD(size) OPERAND(BY_EXTRA, size)
#define NONE OPERAND(NO, 0)
inline constexpr OpcodeRule RULES[OPCODES] = {
#define X(name, meaning) {#name, meaning, Family::UNARY, 0, {IS(n), EACH, NONE, NONE}},
    DYNETJAX_UNARY(X)
#undef X
#define X(name, meaning) {#name, meaning, Family::BINARY, 0, {IS(n), EACH, EACH, NONE}},
    DYNETJAX_BINARY(X)
#undef X
#define X(name, meaning) {#name, meaning, Family::TERNARY, 0, {IS(n), EACH, EACH, EACH}},
    DYNETJAX_TERNARY(X)
#undef X
#define X(name, meaning) {#name, meaning, Family::REDUCTION, 0, {IS(n * k), IS(n * m * k), NONE, NONE}},
    DYNETJAX_REDUCTION(X)
#undef X
#define X(name, meaning) \
    {#name, meaning, Family::SCAN, REVERSED, {IS(n * m * k), IS(n * m * k), NONE, NONE}},
    DYNETJAX_SCAN(X)
#undef X
#define X(name, flags, d, a, b, c, meaning) {#name, meaning, Family::OTHER, flags, {d, a, b, c}},
    DYNETJAX_OTHER(X)
#undef X
#define X(name, flags, d, a, b, c, meaning) {#name, meaning, Family::CONTROL, flags, {d, a, b, c}},
    DYNETJAX_CONTROL(X)
#undef X
};
#undef OPERAND
#undef IS
#undef EACH
#undef TOLD
#undef NONE

inline bool is_elementwise(int op) { return RULES[op].family <= Family::TERNARY; }
inline bool is_reduction(int op) { return RULES[op].family == Family::REDUCTION; }
inline bool is_scan(int op) { return RULES[op].family == Family::SCAN; }
inline bool is_control(int op) { return RULES[op].family == Family::CONTROL; }
inline bool has_operand(int op, int number) { return RULES[op].operands[number].extent != Extent::NO; }
// Words of a result that an instruction writes for each lane.
inline double words_written(int op, double n, double m, double k) {
    return RULES[op].operands[0].words(n, m, k);
}
