// The stored nodes of a graph as an executor has them, and groups of those that are computed together.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "program.h"
#include "reads.h"

constexpr int32_t DEAD = -1;  // a node that was cut
constexpr int32_t WIDE = 32;  // lanes, of which a product of more gains nothing

// A fused op as this graph meets it.
struct Use {
    std::shared_ptr<const Program> program;
    int32_t number;                     // of the fused op
    std::vector<const float*> weights;  // as they were when first read
    std::vector<Aside> asides;
    int64_t groups = 0, rows = 0;  // that were computed, and in how long, where that is measured
    double seconds = 0;
};

struct Node {
    int32_t use, lanes;
    int32_t reads, count;  // where `refs` has what it reads, and how many
    int32_t data;          // where `words` has its runtime data
    int32_t group, lane;   // where its rows are
    int32_t index;         // among the user's nodes; 0 where that does not matter
    float* value;
    bool needed, reached, external;
};
// One that something else has computed, and of which nothing is known so far.
constexpr Node EXTERNAL{-1, 1, 0, 0, -1, -1, 0, 0, nullptr, false, false, true};

// Nodes of one fused op that are computed together, side by side.
struct Group {
    int32_t use, first, count, lanes;  // its nodes are order[first : first + count]
    float *value, *saved, *gradient;
    int32_t operands;        // where `operands` has where these begin
    int32_t data;            // where `data` has where runtime data begins
    int32_t component;       // counted over all parts of the graph
    int32_t series, before;  // the series it is one of, and lanes of those before; -1: none
};

// Groups of one fused op in a recurrence, some of whose products are hoisted.
struct Series {
    int32_t use, first, last, lanes;  // groups; others lie between them
    uint32_t outside;                 // operands, by bit, that come from outside the recurrence
    float* hoisted;
};

struct Work {
    std::vector<Use> uses;
    std::vector<Node> nodes;
    std::vector<int32_t> refs, words;
    std::vector<Group> groups;
    std::vector<int32_t> order;
    std::vector<Series> series;
    size_t fresh = 0;    // the first of the groups that were arranged last
    double written = 0;  // words: what the work is measured by
    bool timed = false;

    const Program& program(const Node& c) const { return *uses[c.use].program; }
    float* row(int32_t number, int32_t lane) const {
        const Node& c = nodes[number];
        return c.value + (size_t)(c.lanes == 1 ? 0 : lane) * program(c).size;
    }
};

// Adds the time from here to the end of a scope to a fused op, if that is measured.
class Watch {
public:
    Watch(bool timed, Use& use) : use_(timed ? &use : nullptr) {
        if (use_) start_ = std::chrono::steady_clock::now();
    }
    Watch(const Watch&) = delete;
    ~Watch() {
        if (use_)
            use_->seconds +=
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

private:
    Use* use_;
    std::chrono::steady_clock::time_point start_;
};
