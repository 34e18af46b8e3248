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

// A program of MAP over `size` numbers: terms and numbers in common, as weights, then gradients, values and
// arrays of state; new values are its result, and new state is what it saves, with the new numbers in common
// behind it. It may write to the arrays that it reads, for a number is written once nothing reads what was
// there. First come instructions of one number, which follow from terms and numbers in common alone, then
// those that go number by number.
struct Rule {
    std::vector<std::shared_ptr<const Program>> programs;  // that have two, three and all of the terms
    int states;                                            // arrays
    long common, made;  // numbers in common that it reads, and that it makes

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
    // The numbers in common are words, of floats or of ints.
    Applier(const Rule& rule, double rate, double step, const std::vector<float>& common);
    // What holds from now on.
    void set(double factor, double seen, double stays, double by);
    void apply(const Changes& x);
    // Numbers in common as the rule makes them, once something is `set`.
    const std::vector<float>& made() const { return made_; }

private:
    // Where an operand is: in the scratch, among the constants, what is told or numbers in common that are
    // made, or in an array that is given, from the number on that a block begins with.
    enum Base { SCRATCH, CONSTANTS, TOLD, MADE, GRADIENTS, VALUES, CHANGED, STATES };
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
    std::vector<float> common_, told_, made_;  // told are terms, and numbers in common
    std::vector<Step> steps_;
    size_t first_ = 0;  // of those that go number by number
    std::vector<float> zeros_;
    std::vector<Line> scratch_;  // of which what follows from the terms stays as it is
};
