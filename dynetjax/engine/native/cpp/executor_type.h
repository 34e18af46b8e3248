// The executor of a graph, for whoever asks it from C++.
#pragma once

#include "stored_type.h"

// Raise TypeError unless it is a `core.Executor`.
void check_executor(PyObject* executor);
// How many stored nodes it knows.
int32_t executed(PyObject* executor);
// Compute the stored nodes from the first on that it does not know; whether all have byte code. A graph
// is asked for what only Python knows.
bool execute(PyObject* executor, const StoredObject* stored, PyObject* graph);
// Add the gradients of a stored node of one number, and of the nodes up to `index` of the user's that it was
// made of, to their storages; false if Python has to do that.
bool go_back(PyObject* executor, const StoredObject* stored, int32_t node, int32_t index);
// The first number of a node.
double first_number(PyObject* executor, int32_t node);
// Whether all numbers of a node are.
bool is_finite(PyObject* executor, int32_t node);
// Bytes that rows and gradients take.
size_t taken(PyObject* executor);
