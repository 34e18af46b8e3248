// What nodes read.
#pragma once

#include <cstdint>

constexpr int32_t NOTHING = -1;  // in place of a node's number: zeros

// How the rows of a node follow from those that it reads.
enum class Reading {
    BY_LANE,  // lane by lane; of a node of one lane, that one in every lane
    SUM,      // likewise, or of each node one element
    COPIES,   // all lanes of several nodes, or some of one
};
