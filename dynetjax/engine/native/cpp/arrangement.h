// Puts nodes in groups that are computed together: by component, there by level, and there by fused op.
#pragma once

#include "components.h"
#include "work.h"

class Arrangement {
public:
    // Of the nodes from `start` on.
    void arrange(Work& work, int32_t start);

private:
    struct Recurrence {  // fused ops that read one another: how many, how often in a row
        int64_t first;
        int32_t kinds, levels;
    };
    Components components_;
    std::vector<Recurrence> recurrences_;
    std::vector<int32_t> level_, kind_;  // of nodes, and of fused ops in their component
    std::vector<int32_t> series_of_;     // of fused ops

    void arrange_series(Work& work, int32_t start);
};
