// Gradients of weights and of rows of tables, as a run back through an executor leaves them.
#pragma once

#include "encoder.h"

// Which uses that read weights, or rows of tables, have nodes up to one of the user's.
std::vector<bool> weighted_up_to(const Executor& executor, long index);
struct Touched {
    Ref ids, gradients;  // bytes
};
// Rows of a table that a use has looked up, for nodes up to one of the user's, and their gradients.
Touched touched_rows(Executor& executor, size_t use, long index);
// Whether all weights are parameters, and all rows those of tables, whose storages are known.
bool are_plain(const Executor& executor, const StoredObject* stored);
// Add the gradients of a node of one number to storages; false, and nothing was done, where that fails.
bool go_back_into_storages(Encoder& encoder, const StoredObject* stored, int32_t node, int32_t index);
