#include "into_storages.h"

#include <utility>

#include "storage_type.h"

std::vector<bool> weighted_up_to(const Executor& g, long index) {
    std::vector<bool> met(g.uses.size());
    for (const Node& c : g.nodes)
        if (c.use >= 0 && g.uses[c.use].program->weighted && c.index <= index) met[c.use] = true;
    return met;
}

Touched touched_rows(Executor& g, size_t use, long index) {
    std::vector<int32_t> ids;
    std::vector<float> values;
    const size_t size = g.uses[use].program->size;
    for (const Node& c : g.nodes) {
        if (c.use != (int32_t)use || c.index > index) continue;
        ids.insert(ids.end(), g.words.begin() + c.data, g.words.begin() + c.data + c.lanes);
        const float* found = g.backward.gradient_of((int32_t)(&c - g.nodes.data()));
        if (found)
            values.insert(values.end(), found, found + c.lanes * size);
        else
            values.resize(values.size() + c.lanes * size, 0.f);
    }
    return {bytes_of(ids), bytes_of(values)};
}

bool are_plain(const Executor& g, const StoredObject* stored) {
    for (const Use& u : g.uses) {
        const Program& p = *u.program;
        if (p.form == Form::LOOKUP && p.weighted && !stored->tables->count(p.table)) return false;
        if (p.form != Form::MAP) continue;
        if (!p.differentiable) return false;
        for (const int32_t kind : p.weights) {
            const auto at = stored->parameters->find(kind);
            if (at == stored->parameters->end() || !has_array(at->second.storage.get())) return false;
        }
    }
    return true;
}

namespace {

// Where gradients go that no trainer asks for, or into an array for a storage.
struct Target {
    StorageObject* storage;  // null: nowhere
    std::vector<float> nowhere;
    Numbers array;
    Ref made;
    float* data() { return storage ? array.data() : nowhere.data(); }
};
// An array of zeros: the one that the last update was done with, if nobody has it.
Target target_for(const Parameter& p, int64_t size) {
    Target t;
    t.storage = p.constant ? nullptr : (StorageObject*)p.storage.get();
    if (!t.storage) {
        t.nowhere.resize((size_t)size);
        return t;
    }
    t.made = array_for_gradient(t.storage, Ref(std::exchange(t.storage->spare, nullptr)), size, t.array);
    memset(t.array.data(), 0, 4 * (size_t)size);
    return t;
}
// Add what came to a target to the gradient of its storage.
void add_up(Target& t) {
    StorageObject* s = t.storage;
    Numbers sum;
    if (!s->gradient || s->gradient == Py_None) {
        t.array = Numbers();
        Py_XSETREF(s->gradient, t.made.release());
    } else if (is_array_of_its_own(s->gradient, sum) && sum.size() == t.array.size()) {
        float* to = sum.data();
        for (size_t k = 0; k < sum.size(); k++) to[k] += t.array.data()[k];
        t.array = Numbers();
        Py_XSETREF(s->spare, t.made.release());
    } else {
        Ref total = owned(PyNumber_Add(s->gradient, t.made.get()));
        Py_XSETREF(s->gradient, total.release());
    }
}

class GoingBack {
public:
    GoingBack(Encoder& s, const StoredObject* stored, int32_t node, int32_t index)
        : busy_(s), g_(s.executor), stored_(stored), node_(node), index_(index) {}
    bool run() {
        try {
            compute();
        } catch (const std::bad_alloc&) {
            return false;
        } catch (const Failed&) {
            if (!PyErr_ExceptionMatches(PyExc_Exception)) throw;
            PyErr_Clear();
            return false;
        }
        for (StorageObject* storage : reached_) storage->has_gradient = true;
        for (auto& [kind, target] : targets_)
            if (target.storage) add_up(target);
        for (const auto& [storage, rows] : rows_)
            called(storage, "_add_rows", rows.ids.get(), rows.gradients.get());
        return true;
    }

private:
    const Computing busy_;
    Executor& g_;
    const StoredObject* stored_;
    int32_t node_, index_;
    std::unordered_map<int32_t, Target> targets_;
    std::vector<StorageObject*> reached_;
    std::vector<std::pair<PyObject*, Touched>> rows_;

    void compute() {
        const auto gradients = gradients_by_use(g_, [&](int32_t kind, int32_t size) {
            return targets_.emplace(kind, target_for(stored_->parameters->at(kind), size))
                .first->second.data();
        });
        {
            const Released released;
            g_.backward.run({Backward::Root{node_, {1.f}}}, false, gradients);
        }
        const std::vector<bool> met = weighted_up_to(g_, index_);
        for (size_t n = 0; n < g_.uses.size(); n++) {
            if (!met[n]) continue;
            const Program& p = *g_.uses[n].program;
            if (p.form == Form::LOOKUP)
                rows_.emplace_back(stored_->tables->at(p.table).get(), touched_rows(g_, n, index_));
            for (const int32_t kind : p.weights)
                if (StorageObject* x = targets_.at(kind).storage) reached_.push_back(x);
        }
    }
};

}  // namespace

bool go_back_into_storages(Encoder& encoder, const StoredObject* stored, int32_t node, int32_t index) {
    return GoingBack(encoder, stored, node, index).run();
}
