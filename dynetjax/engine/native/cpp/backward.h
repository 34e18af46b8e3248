// Goes back through groups: gradients of their rows, and of weights.
#pragma once

#include "forward.h"

class Backward {
public:
    Backward(Work& work, Forward& forward) : work_(work), forward_(forward) {}
    Backward(const Backward&) = delete;

    struct Root {
        int32_t number;
        std::vector<float> gradient;
    };
    // From nodes whose gradients are given. `gradients` are those of weights, by use and by number there;
    // null where there is none.
    void run(const std::vector<Root>& roots, bool full, const std::vector<std::vector<float*>>& gradients);
    // The rows of a node's gradient; null if the last run did not reach it.
    float* gradient_of(int32_t number);
    size_t memory() const { return gradients_.words(); }  // words

private:
    Work& work_;
    Forward& forward_;
    Arena gradients_;
    std::vector<std::vector<float*>> targets_;

    void prepare(bool full);
    void back(const Group& g, const std::vector<float*>& gradients);
    void map(const Group& g, const std::vector<float*>& gradients, int32_t from, int32_t to, long first,
             long lanes);
    void back_through_sum(const Node& c, const Program& p, const float* from);
    void back_through_gather(const Node& c, const Program& p, const float* from);
    void back_through_join(const Node& c, const Program& p, const float* from);
    float* to(int32_t number, int32_t lane);
    void add_asides(Use& u, const std::vector<float*>& gradients);
    bool is_asked(int32_t number) const;  // whether the gradient of a node is there, and goes anywhere
    bool aim(const Group& g, int32_t from, int32_t to, size_t operand, long first, float** targets);
    float* reach(int32_t number);
    void hoist(int32_t number);
};
