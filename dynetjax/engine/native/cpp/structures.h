// What nodes may have in common: the structures of fused ops, and how a node comes to have one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "program.h"

// Numbers for sequences of ints, in order of first appearance.
class Interned {
public:
    // The number of a key; -1 if it is not known.
    int32_t find(const int32_t* key, size_t count) const {
        return slots_[place(key, count, hash(key, count))].number;
    }
    // The number; `fresh` tells whether the key is new.
    int32_t number(const int32_t* key, size_t count, bool& fresh);
    int32_t size() const { return (int32_t)keys_.size(); }
    const int32_t* key(int32_t number, size_t& count) const {
        count = keys_[number].count;
        return ints_.data() + keys_[number].first;
    }

private:
    struct Slot {
        uint32_t hash = 0;
        int32_t number = -1;
        size_t first = 0, count = 0;
    };
    std::vector<Slot> slots_ = std::vector<Slot>(256), keys_;
    std::vector<int32_t> ints_;

    static uint32_t hash(const int32_t* key, size_t count);
    size_t place(const int32_t* key, size_t count, uint32_t hash) const;
};

// What is known of a signature: see `dynetjax.core.registry`.
struct Signature {
    Form form;
    bool contraction;              // its operands are never part of it
    bool tells;                    // its rows are told apart as those of its first operand are
    bool adds;                     // an addition of two rows of one kind
    bool sums;                     // the sum of any number of rows
    bool listed;                   // its operands may take turns
    int32_t kind;                  // of the result
    int32_t ragged;                // axes of it
    bool zeros;                    // it stands for rows of zeros, which nothing computes
    int32_t broadcast;             // operands with one row for all lanes, by bit
    bool is_weight;                // the result has no rows
    std::string letters;           // of runtime data
    std::vector<int32_t> weights;  // of each operand the kind if it has no rows, else -1
};

// What an operand is to the structure of a node that reads it.
struct Source {
    enum Role : int32_t { PART, ROWS, INSTEAD, WEIGHT, SUM } role;
    // PART: its structure. ROWS, or those INSTEAD of a weight: what tells them from others of
    // their kind. SUM: of one that goes on.
    int32_t number;
};

// What nodes of one fused op have in common.
struct Structure {
    int32_t signature;  // -1: the sum of rows of `kind`
    int32_t kind;
    int32_t provenance;  // what tells its rows from others of their kind; 0: nothing does
    int32_t steps = 1, levels = 1, additions = 0;
    bool stored = false;        // its nodes have rows for good, for one of them needed some
    int32_t fused = -1;         // number of its fused op, once there is one
    std::vector<int32_t> path;  // signatures in it
    std::vector<Source> operands;
};

// How a node of some signature and operands is computed.
struct Decision {
    int32_t structure;
    bool sums;          // it is a sum, to which more may be added
    uint64_t parts[2];  // operands that become part of it, by bit
};
constexpr size_t MOST_PARTS = 128;  // operands, behind which none becomes a part

// All that the process knows. Facts about it are only ever added: `learned` counts those by which
// nodes that were decided before would be decided otherwise.
class Structures {
public:
    std::vector<Signature> signatures;
    std::vector<Structure> known;
    int64_t learned = 0;

    // How a node with this signature, a MAP, is computed of such operands.
    const Decision& decide(int32_t signature, const std::vector<Source>& operands);
    // That of sums of rows of a kind, and of nodes that are no MAP.
    int32_t sum(int32_t kind);
    int32_t plain(int32_t signature);
    // Give nodes of a structure rows for good.
    void store(int32_t structure) {
        if (known[structure].stored) return;
        known[structure].stored = true;
        learned++;
        outdated.push_back({structure, false});
    }
    // Structures that no new node has in it; or has, where that is `whole`.
    struct Outdated {
        int32_t structure;
        bool whole;
    };
    std::vector<Outdated> outdated;

private:
    // Lists in which the same things take turns: which of them are told apart no more.
    struct Turns {
        int32_t root;  // another one that has it in it; itself
        bool even = false;
        std::vector<int32_t> structures;
    };
    Interned wishes_, made_, names_;
    std::vector<int32_t> long_;  // names of terms of long sums
    struct Decided {
        Decision what;
        int64_t facts;  // how many there were
    };
    std::vector<Decided> decisions_;  // by wish
    int64_t facts_ = 0;               // that decisions follow from: long sums, and lists that are even
    std::vector<Turns> turns_;
    std::vector<int32_t> turns_of_;  // by name
    std::vector<int32_t> key_;

    void write_key(int32_t signature, const std::vector<Source>& operands);
    Decision resolve(int32_t signature, std::vector<Source> operands);
    Decision sum_of(int32_t signature, const std::vector<Source>& operands);
    int32_t make(int32_t signature, int32_t kind, const std::vector<Source>& operands, bool& fresh);
    bool is_long(int32_t signature, const Source& term);
    void note_long(int32_t signature, const Source& term);
    int32_t additions(int32_t signature, const std::vector<Source>& operands) const;
    bool part_of_one_too_large(int32_t signature, std::vector<Source>& operands) const;
    Source as_rows(const Source& x) const;
    int32_t root_of(int32_t turns);
    void make_even(int32_t turns);
    int32_t turns_for(int32_t signature, const std::vector<Source>& operands);
};
