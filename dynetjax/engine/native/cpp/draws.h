// Random keys: which numbers a node draws follows from a seed, the node's number and the batch
// element; engine/ir/draws.py has the same for XLA.
#pragma once

#include <cstdint>

// 64 well mixed bits (the finaliser of SplitMix64).
inline uint64_t scrambled(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// Write a key of two words for each lane of a node. `number` is counted from where the random
// numbers that belong to `seed` begin.
inline void write_keys(uint64_t seed, uint64_t number, int32_t lanes, int32_t* to) {
    const uint64_t mixed = scrambled(seed), first = number * 0xD6E8FEB86659FD93u;
    for (int32_t l = 0; l < lanes; l++) {
        const uint64_t bits = scrambled(scrambled(first + (uint64_t)l * 0x9E3779B97F4A7C15u) ^ mixed);
        *to++ = (int32_t)(uint32_t)bits;
        *to++ = (int32_t)(uint32_t)(bits >> 32);
    }
}
