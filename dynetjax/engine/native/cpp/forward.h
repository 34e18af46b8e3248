// Computes the rows of groups, and keeps them.
#pragma once

#include "arena.h"
#include "work.h"

class Forward {
public:
    explicit Forward(Work& work) : work_(work) {}
    Forward(const Forward&) = delete;

    // Have a place for the rows of a node that something else has computed.
    void external(int32_t number, const float* rows);
    // Have memory for the rows of the groups that are fresh.
    void place();
    // Compute them; those that get their rows from outside have them.
    void compute();
    // What a program runs on, for some lanes of a group; without one, its temporaries only.
    Frame& frame(const Use& u, long lanes, const Group* g);
    // Have lanes from `first` on of a group as operands and runtime data of a frame.
    void read(const Group& g, long first, Frame& f) const;
    size_t memory() const;  // words

    // How long everything is, to go back to.
    struct Mark {
        size_t operands, data, fetched;
        Arena::Top values;
    };
    Mark mark() const;
    void rewind(const Mark& to);

private:
    struct Operands {
        float* base;
        long stride;
    };
    Work& work_;
    std::vector<Operands> operands_;
    std::vector<float*> data_;
    Arena values_, scratch_, hoisted_;
    std::vector<int32_t> fetched_;  // nodes that something else has computed
    std::vector<float*> rows_;
    std::vector<float> zeros_;
    Frame frame_;  // of the group at hand

    void forward(Group& g);
    void map(Group& g, Use& u);
    void sum(const Group& g, size_t size);
    void gather(const Group& g, size_t size);
    void join(const Group& g, const Program& p);
    Operands side_by_side(long size, Arena& arena);
    void collect(const Group& g, size_t operand);
    void hoist(Series& s);
};
