// A fused op as byte code: what its nodes compute, and how their gradients go back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opcodes.h"

// Words of an instruction's operand, of lane l: slot's base + lanes * start + l * stride +
// inner. `one` is set where the same word stands for all n.
struct Operand {
    int32_t slot, start, inner, stride, one;
};
constexpr int32_t DYNAMIC = -1;  // stride of a node's operand: the frame has it

struct Instruction {
    int32_t op, flags, n, m, k, extra;
    Operand d, a, b, c;

    const Operand& operand(int number) const {
        return number == 0 ? d : number == 1 ? a : number == 2 ? b : c;
    }
};
// Words of a lane that an operand of a checked instruction has; -1: `extra` tells.
inline long words_of(const Instruction& q, int number) {
    const OperandRule& of = RULES[q.op].operands[number];
    if (of.extent == Extent::BY_EXTRA) return -1;
    return of.extent == Extent::ANY_OR_ONE && q.operand(number).one ? 1 : (long)of.words(q.n, q.m, q.k);
}
constexpr int INSTRUCTION_WORDS = sizeof(Instruction) / 4;
constexpr int MOST_IN_CHAIN = 32;  // instructions that run block by block

// How nodes of a fused op get their rows.
#define DYNETJAX_FORMS(X) X(MAP) X(INPUT) X(LOOKUP) X(REDUCE) X(GATHER) X(JOIN)
#define X(name) name,
enum class Form : int { DYNETJAX_FORMS(X) };
#undef X

struct Program {
    Form form;
    int32_t size;                  // numbers in a row of the result
    bool weighted;                 // reads parameters, or rows of a table, that are trained
    std::vector<int32_t> sizes;    // of its operands' rows
    std::string data;              // of each field of runtime data i: int, f: float, k: a key of two words
    std::vector<int32_t> weights;  // kinds of what it reads that has no rows
    std::vector<int32_t> weight_sizes;
    std::vector<Instruction> forward, backward;
    bool differentiable = false;  // it has `backward`
    std::vector<int32_t> extra;
    std::vector<float> constants;
    int32_t temporary = 0, saved = 0, hoisted = 0;    // words a lane
    std::vector<std::pair<int32_t, int32_t>> asides;  // sizes of products put aside
    double written = 0, written_back = 0;  // words a lane, of which a loop counts once for each time
    int32_t table = -1;                    // kind of a LOOKUP's table
    int32_t pieces = 0, outer = 1;         // of a JOIN: how many rows it has room for, and how a row is cut

    int first_operand() const { return FIRST + (int)weights.size(); }
    int first_datum() const { return first_operand() + (int)sizes.size(); }
    int first_gradient() const { return first_datum() + (int)data.size(); }
    int slots() const { return first_gradient() + (int)weights.size(); }

    // What is wrong with it; empty if nothing is (verifier.cpp). Every place that an instruction names is
    // checked here, so that nothing need be when it runs.
    std::string check() const;
    // Finds chains, and how many words a lane the instructions write, once they are checked.
    void prepare();
};

// What a program runs on: where slots begin, for some lanes of a group.
struct Frame {
    long lanes;                                // to run
    long lane = 0;                             // the first of them; more than 0 in a loop that runs one lane
    long width = 1;                            // lanes that temporaries are laid out for
    long first = 0;                            // lane 0, in SAVED, VALUE and COTANGENT
    long room = 0;                             // lanes that these have
    long first_hoisted = 0, room_hoisted = 0;  // the same in HOISTED
    uint32_t outside = 0;                      // operands, by bit, whose HOIST instructions run apart
    bool apart = false;                        // and this is that run
    std::vector<float*> base;
    std::vector<long> strides;     // of operands
    std::vector<float**> targets;  // by operand, where the gradient of each lane goes; null: nowhere
    struct Aside* asides = nullptr;
};

// Rows whose outer products are to be added to a gradient.
struct Aside {
    float *a = nullptr, *b = nullptr;  // with room for all lanes of the fused op
    long rows = 0;
};

void run(const std::vector<Instruction>& code, const Program& program, Frame& frame);

// d[rows, columns] (+)= a[rows, count] b[count, columns]: numbers of a row of d are side by
// side, others any distance apart.
void product(float* d, long ldd, const float* a, long ai, long ak, const float* b, long bk, long bj,
             long rows, long count, long columns, bool more);
