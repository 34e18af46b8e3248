// A trainer's rule as byte code, which runs over blocks of numbers wherever they are.
#pragma once

#include <memory>
#include <vector>

#include "kernels.h"
#include "program.h"

constexpr int MOST_STATES = 8;
constexpr long LINE = 16;  // numbers in a line of the cache

// What one update tells a rule; in this order its programs read them.
struct Terms {
    float step, rate;
    float factor = 1;  // on every gradient
    float seen = 1;    // on values as the rule reads them
    float stays = 1;   // on every old value
    float by = 1;      // on every change

    // Whether what a program leaves out has no effect: it has so many of the terms.
    bool are_within(int count) const {
        return (count > 2 || factor == 1) && (count > 3 || (seen == 1 && stays == 1 && by == 1));
    }
    bool operator==(const Terms& x) const {
        return step == x.step && rate == x.rate && factor == x.factor && seen == x.seen &&
               stays == x.stays && by == x.by;
    }
};
constexpr int TERMS = sizeof(Terms) / 4;
constexpr int COUNTS[] = {2, 3, TERMS};  // of the terms, that programs have: what else there is, is 1

// A program of MAP over `size` numbers: terms, as weights, then gradients, values and arrays of state;
// new values are its result, and new state is what it saves. It may write to the arrays that it reads, for a
// number is written once nothing reads what was there. First come instructions of one number, which follow
// from the terms alone, then those that go number by number.
struct Rule {
    std::vector<std::shared_ptr<const Program>> programs;  // that have two, three and all of the terms
    int states;

    // Throws std::invalid_argument if these are no programs of a rule.
    explicit Rule(std::vector<std::shared_ptr<const Program>> programs);
};

// The numbers that a rule changes, in arrays that begin there.
struct Changes {
    long count;
    const float *gradients, *values;  // no gradients: they are zero
    float* changed;                   // where new values go
    float* states[MOST_STATES];
};

class Applier {
public:
    Applier(const Rule& rule, double rate, double step);
    // What holds from now on.
    void set(double factor, double seen, double stays, double by);
    void apply(const Changes& x);

private:
    // Where an operand is: in the scratch, among the constants or the terms, or in an array that is given,
    // from the number on that a block begins with.
    enum Base { SCRATCH, CONSTANTS, TOLD, GRADIENTS, VALUES, CHANGED, STATES };
    struct Place {
        int base;
        long at;
    };
    struct Step {
        Elementwise kernel;
        Place places[4];  // d, a, b, c
        int ones;
    };
    Place place_of(const Operand& x, const Program& p) const;
    struct Line {
        alignas(4 * LINE) float numbers[LINE];
    };
    void run(size_t first, size_t end, const Changes& x, long at, long n, std::vector<Line>& scratch) const;

    const Rule& rule_;
    const Program* program_ = nullptr;  // of those of the rule
    Terms terms_;
    std::vector<Step> steps_;
    size_t first_ = 0;  // of those that go number by number
    std::vector<float> zeros_;
    std::vector<Line> scratch_;  // of which what follows from the terms stays as it is
};
