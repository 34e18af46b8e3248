// The executor of a graph, for whoever asks it from C++.
#pragma once

#include "stored_type.h"

// Raise TypeError unless it is a `core.Graph`.
void check_executor(PyObject* executor);
// How many stored nodes it knows.
int32_t executed(PyObject* executor);
// Compute the stored nodes from the first on that it does not know; whether all have byte code.
bool execute(PyObject* executor, const StoredObject* stored);
// The first number of a node.
double first_number(PyObject* executor, int32_t node);
// Bytes that rows and gradients take.
size_t taken(PyObject* executor);
