// What nodes read.
#pragma once

#include <cstdint>
#include <stdexcept>

constexpr int32_t NOTHING = -1;  // in place of a node's number: zeros

// A number as one of 32 bits.
inline int32_t narrow(int64_t number) {
    if (number != (int32_t)number)
        throw std::overflow_error("a graph has more than 2^31 rows, operands or numbers to go with them");
    return (int32_t)number;
}

// How the rows of a node follow from those that it reads.
enum class Reading {
    BY_LANE,  // lane by lane; of a node of one lane, that one in every lane
    SUM,      // likewise, or of each node one element
    COPIES,   // all lanes of several nodes, or some of one
};
