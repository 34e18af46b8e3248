// What one computation graph has computed: rows of its stored nodes, and their gradients.
#pragma once

#include "arrangement.h"
#include "backward.h"

class Executor : public Work {
public:
    Executor() : forward(*this), backward(*this, forward) {}
    Forward forward;
    Backward backward;

    // Arrange the nodes from `start` on in groups, with memory for their rows.
    void arrange(int32_t start) {
        arrangement_.arrange(*this, start);
        forward.place();
    }
    size_t memory() const;  // bytes

    // How long everything is, to go back to.
    struct Mark {
        size_t nodes, refs, words, groups, order, series;
        Forward::Mark rows;
    };
    Mark mark() const;
    void rewind(const Mark& to);
    // What was computed since is there to stay, up to a cut.
    void keep(const Mark& since) { marks_.push_back(since); }
    void cut(int32_t count);

private:
    Arrangement arrangement_;
    std::vector<Mark> marks_;
};
