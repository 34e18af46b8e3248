// Gradients of weights and of rows of tables, as a run back through an executor leaves them.
#pragma once

#include "encoder.h"

// Which uses that read weights, or rows of tables, have nodes up to one of the user's.
std::vector<bool> weighted_up_to(const Executor& executor, long index);
// Where the gradients of weights go, by use and by number there. `data_of(kind, size)` gives the place of
// one weight's, and is asked once for each.
template <class F>
std::vector<std::vector<float*>> gradients_by_use(const Executor& executor, F data_of) {
    std::unordered_map<int32_t, float*> known;
    std::vector<std::vector<float*>> found(executor.uses.size());
    for (size_t n = 0; n < found.size(); n++) {
        const Program& p = *executor.uses[n].program;
        if (p.form != Form::MAP) continue;
        for (size_t k = 0; k < p.weights.size(); k++) {
            const auto at = known.emplace(p.weights[k], nullptr);
            if (at.second) at.first->second = data_of(p.weights[k], p.weight_sizes[k]);
            found[n].push_back(at.first->second);
        }
    }
    return found;
}
struct Touched {
    Ref ids, gradients;  // bytes
};
// Rows of a table that a use has looked up, for nodes up to one of the user's, and their gradients.
Touched touched_rows(Executor& executor, size_t use, long index);
// Whether all weights are parameters, and all rows those of tables, whose storages are known.
bool are_plain(const Executor& executor, const StoredObject* stored);
// Add the gradients of a node of one number to storages; false, and nothing was done, where that fails.
bool go_back_into_storages(Encoder& encoder, const StoredObject* stored, int32_t node, int32_t index);
