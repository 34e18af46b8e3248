// The nodes of a graph as they were made, and which of them get rows.
#pragma once

#include <cstdint>
#include <vector>

#include "stored.h"
#include "structures.h"

constexpr size_t FAN_IN = 8;     // rows that are added up at once
constexpr int32_t NO_ROWS = -1;  // where the rows of a node are that has none
// What a node reads is a node, by its number, or a leaf: a parameter or table, which belongs to no graph.
inline int32_t ref_of_leaf(int32_t leaf) { return -2 - leaf; }
inline int32_t leaf_of(int32_t ref) { return -2 - ref; }

struct MadeNode {
    int32_t signature, lanes;    // no lanes: a weight
    int32_t first, count;        // where `operands` has what it reads, and how many
    int32_t shown, shown_count;  // the same of what the user gave
    int32_t data, words;         // where `data` has its runtime data, and how many words
    int32_t lengths;             // where `lengths` has those of its ragged axes
    int32_t index;               // among the user's nodes; of a part, that of the node that it is made for
    int32_t given;               // the user's array that it is; -1 if it is none
    int32_t uses;
    uint32_t generation;
    bool is_part;     // of another, and none of the user's
    bool is_zeros;    // it is no node: zeros that others read
    bool is_several;  // its data were given for each batch element
};

class Nodes {
public:
    Nodes(Structures& structures, StoredNodes& stored) : structures_(structures), stored_(stored) {}
    std::vector<MadeNode> made;
    std::vector<int32_t> operands, data, lengths;
    std::vector<int32_t> of_user;  // numbers of nodes, by number among the user's
    uint32_t generation = 0;       // of nodes that are made from now on

    // Add a node: its operands, runtime data and lengths are the last in their arrays. The number of
    // the next node of the user's is its `index`, be it that one or a part of it.
    int32_t add(MadeNode node);
    void clear();
    // Forget what was added since there were so many nodes.
    void drop(size_t count);
    // Give rows to all nodes that need some, and to those that are asked for.
    void store(const std::vector<int32_t>& asked);
    // As it was before that.
    void unstore();
    int32_t at(int32_t node) const { return fates_[(size_t)node].at; }
    // How many nodes were looked at for rows.
    int32_t known() const { return (int32_t)fates_.size(); }
    // Whether a node got rows when it was part of others, whose gradients do not go there.
    bool is_late(int32_t node) const { return fates_[(size_t)node].is_late; }
    // Whether it is a sum, whose terms may have become those of others.
    bool sums(int32_t node) const { return fates_[(size_t)node].sums; }
    bool is_held(int32_t node) const { return node < (int32_t)held_.size() && held_[(size_t)node]; }
    // Give rows anew from the first node on; to those that are held in any case.
    void start_anew();
    void hold(int32_t node);
    // Keep so many nodes of the user, and what was stored before others.
    void cut(int32_t users);

private:
    struct Fate {
        int32_t at = NO_ROWS, into = -1, structure = -1;
        bool sums = false, is_late = false;
    };
    Structures& structures_;
    StoredNodes& stored_;
    std::vector<Fate> fates_;
    std::vector<bool> held_;
    int32_t start_ = 0, stored_before_ = 0;  // of what `store` looks at
    std::vector<bool> asked_;                // from there on
    std::vector<int32_t> revived_, terms_, stack_;
    std::vector<Source> sources_;

    bool has_rows_of_its_own(MadeNode& c, int32_t n) const;
    bool is_read(int32_t ref) const { return ref >= 0 && made[ref].lanes > 0 && !made[ref].is_zeros; }
    bool may_be_part(int32_t operand, int32_t lanes) const;
    void decide(int32_t n);
    void read(int32_t n);
    void revive(int32_t n);
    void emit(int32_t n);
    void emit_sum(int32_t n);
    void gather(int32_t n);
};
