// How nodes are made again as they were made before: templates, by what decides how they are made.
#pragma once

#include <cstdint>
#include <vector>

#include "structures.h"

// A number in a node's runtime data.
struct Datum {
    enum From : int32_t { WORDS, ARGUMENT, INDEX } from;
    int32_t number;  // WORDS: the word of every lane. ARGUMENT: which. INDEX: the node's own number
};

// A node of a template.
struct Made {
    int32_t signature;
    int32_t lanes;         // 0, 1, or MANY: as many as the operands have
    int32_t first, count;  // where `refs` has what it reads: operands from 0 on, nodes of the template below
    int32_t shown, shown_count;
    int32_t data, data_count;  // where `data` has its runtime data
    int32_t lengths, lengths_count;
    bool is_part, is_zeros;
};
constexpr int32_t MANY = 2;

struct Template {
    int32_t first, count;           // where `made` has its nodes
    int32_t results, result_count;  // where `refs` has what is returned
    bool is_tuple;
};

class Memo {
public:
    Interned keys;
    std::vector<Template> templates;  // by key
    std::vector<Made> made;
    std::vector<int32_t> refs, lengths;
    std::vector<Datum> data;

    const Template* find(const int32_t* key, size_t count) const {
        const int32_t number = keys.find(key, count);
        return number < 0 ? nullptr : &templates[number];
    }
};
