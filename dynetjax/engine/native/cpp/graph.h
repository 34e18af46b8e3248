// What one computation graph has computed: rows of its nodes, and their gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arena.h"
#include "components.h"
#include "program.h"
#include "reads.h"

constexpr int32_t DEAD = -1;  // a node that was cut

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

class Graph {
public:
    std::vector<Use> uses;
    bool timed = false;
    std::vector<Node> nodes;
    std::vector<int32_t> refs, words;

    // Have a place for the rows of a node that something else has computed.
    void external(int32_t number, const float* rows);
    // Arrange the nodes from `start` on in groups, with memory for their rows.
    void arrange(int32_t start);
    // Compute the groups that were arranged last.
    void compute();
    // The last groups, those that get their rows from outside first.
    size_t fresh() const { return fresh_; }
    std::vector<Group> groups;
    std::vector<int32_t> order;

    // How long everything is, to go back to.
    struct Mark {
        size_t nodes, refs, words, groups, order, operands, data, fetched, series;
        Arena::Top values;
    };
    Mark mark() const;
    void rewind(const Mark& to);
    // What was computed since is there to stay, up to a cut.
    void keep(const Mark& since) { marks_.push_back(since); }
    void cut(int32_t count);
    // Go back from nodes whose gradients are given. `gradients` are those of weights, by use and by
    // number there; null where there is none.
    struct Root {
        int32_t number;
        std::vector<float> gradient;
    };
    void backward(const std::vector<Root>& roots, bool full,
                  const std::vector<std::vector<float*>>& gradients);
    float* gradient_of(int32_t number);
    double written() const { return written_; }
    size_t memory() const;  // bytes

private:
    struct Operands {
        float* base;
        long stride;
    };
    std::vector<Operands> operands_;
    std::vector<float*> data_;
    Arena values_, gradients_, scratch_, hoisted_;
    std::vector<Series> series_;
    std::vector<int32_t> series_of_;  // of fused ops, in the part that was arranged last
    std::vector<float> zeros_;
    double written_ = 0;  // words: what the work is measured by
    size_t fresh_ = 0;
    std::vector<Mark> marks_;
    std::vector<int32_t> fetched_;  // nodes that something else has computed
    struct Recurrence {             // fused ops that read one another: how many, how often in a row
        int64_t first;
        int32_t kinds, levels;
    };
    Components components_;
    std::vector<Recurrence> recurrences_;
    std::vector<int32_t> level_, kind_;  // of nodes, and of fused ops in their component
    std::vector<float*> rows_;
    std::vector<std::vector<float*>> targets_;
    Frame frame_;  // of the group at hand

    float* zeros(size_t count);
    void forward(Group& g);
    void map(Group& g, Use& u);
    void backward(const Group& g, const std::vector<float*>& gradients);
    void run_back(const Group& g, const std::vector<float*>& gradients, int32_t from, int32_t to, long first,
                  long lanes);
    Frame& frame(const Use& u, long lanes, const Group* g);
    Operands side_by_side(long size, Arena& arena);
    void collect(const Group& g, size_t operand);
    void arrange_series(size_t first, int32_t start);
    void hoist(Series& s);
    void hoist_back(int32_t number);
    bool aim(const Group& g, int32_t from, int32_t to, size_t operand, long first, float** targets);
    float* reach(int32_t number);
    float* row(int32_t number, int32_t lane) const {
        const Node& c = nodes[number];
        return c.value + (size_t)(c.lanes == 1 ? 0 : lane) * uses[c.use].program->size;
    }
};
