#include "encoder.h"

#include <utility>

#include "draws.h"
#include "storage_type.h"

PyObject* Encoder::asked() {
    if (tables.get() == Py_None && whose) tables = called(whose, "_tables");
    return tables.get();
}

// The numbers of a weight as they were when first read: those of a parameter without Python.
View Encoder::view_of(int32_t kind) {
    const Ref number = owned(PyLong_FromLong(kind));
    PyObject* known = PyDict_GetItemWithError(arrays.get(), number.get());
    if (known) return View(Ref(Py_NewRef(known)).get());
    if (PyErr_Occurred()) throw Failed();
    const auto at = stored_->parameters->find(kind);
    Numbers numbers;
    if (at != stored_->parameters->end() && read_values(at->second.storage.get(), numbers)) {
        if (PyDict_SetItem(arrays.get(), number.get(), numbers.array().get())) throw Failed();
        return View(numbers.array().get());
    }
    return View(called(asked(), "weight", number.get()).get());
}

const float* Encoder::weight_of(int32_t kind, int64_t size) {
    auto at = weights_.find(kind);
    if (at == weights_.end()) {
        views_.push_back(view_of(kind));
        at = weights_.emplace(kind, views_.size() - 1).first;
    }
    const View& view = views_[at->second];
    if ((int64_t)view.words() < size) fail(PyExc_ValueError, "a weight is too small");
    return view.as<float>();
}

// -1: there is no program for it.
int32_t Encoder::use_of(long fused) {
    const auto known = use_.find(fused);
    if (known != use_.end()) return known->second;
    Ref number = owned(PyLong_FromLong(fused));
    Ref found(Py_XNewRef(PyDict_GetItemWithError(programs.get(), number.get())));
    if (!found.get()) {
        if (PyErr_Occurred()) throw Failed();
        found = called(asked(), "program", number.get());
    }
    if (found.get() == Py_None) return -1;
    Use u;
    u.program = program_in(found.get());
    u.number = (int32_t)fused;
    for (size_t k = 0; k < u.program->weights.size(); k++)
        u.weights.push_back(weight_of(u.program->weights[k], u.program->weight_sizes[k]));
    executor.uses.push_back(std::move(u));
    return use_[fused] = (int32_t)executor.uses.size() - 1;
}

// A use for rows of a size that come from outside.
int32_t Encoder::use_of_rows(int32_t size) {
    const long key = -1 - (long)size;
    const auto known = use_.find(key);
    if (known != use_.end()) return known->second;
    auto p = std::make_shared<Program>();
    p->form = Form::INPUT;
    p->size = size;
    p->weighted = false;
    Use u;
    u.program = p;
    u.number = -1;
    executor.uses.push_back(std::move(u));
    return use_[key] = (int32_t)executor.uses.size() - 1;
}

// Have the rows of a node that something else has computed.
void Encoder::fetch(int32_t n) {
    Ref which = owned(PyLong_FromLong(n));
    Ref found = called(asked(), "rows", which.get());
    const View v(found.get());
    const Py_buffer& b = v.raw();
    if (b.ndim < 1 || b.itemsize != 4 || b.shape[0] < 1)
        fail(PyExc_ValueError, "rows are not [batch, *shape] of float32");
    Node& c = executor.nodes[n];
    c.lanes = narrow(b.shape[0]);
    c.use = use_of_rows(narrow((int64_t)v.words() / b.shape[0]));
    executor.forward.external(n, v.as<float>());
}

// Asked for once.
uint64_t Encoder::seed_of(PyObject* draws, size_t epoch) {
    if (epoch >= seeds_.size()) seeds_.resize(epoch + 1);
    if (!seeds_[epoch]) {
        Ref which = owned(PyLong_FromSize_t(epoch));
        Ref found = called(draws, "seed", which.get());
        seeds_[epoch] = PyLong_AsUnsignedLongLong(found.get());
        if (PyErr_Occurred()) {
            seeds_[epoch].reset();
            throw Failed();
        }
    }
    return *seeds_[epoch];
}

// Random keys of a node by its number among the user's.
void Encoder::append_keys(long node, int32_t lanes) {
    Ref draws = attribute(asked(), "draws"), starts = attribute(draws.get(), "starts");
    if (!PyList_Check(starts.get())) fail(PyExc_TypeError, "starts of random numbers are no list");
    size_t epoch = (size_t)PyList_GET_SIZE(starts.get());
    long start = 0;
    for (; epoch; epoch--) {
        start = integer(item(starts.get(), (Py_ssize_t)epoch - 1).get());
        if (start <= node) break;
    }
    if (!epoch) start = 0;
    const uint64_t seed = seed_of(draws.get(), epoch);
    const size_t at = executor.words.size();
    executor.words.resize(at + 2 * (size_t)lanes);
    write_keys(seed, (uint64_t)(node - start), lanes, executor.words.data() + at);
}

namespace {

// Words of a node's runtime data; what asks Python for anything reads them anew after that.
const int32_t* words_of(const StoredNodes& stored, const StoredNode& c, int32_t at, int32_t count) {
    if ((int64_t)at + count > c.words || (size_t)c.data + c.words > stored.data.size())
        fail(PyExc_ValueError, "runtime data is missing");
    return stored.data.data() + c.data + at;
}

}  // namespace

void Encoder::append_data(Node& c, const Program& p, const StoredNodes& stored, const StoredNode& from) {
    if (p.data.empty()) return;
    c.data = narrow((int64_t)executor.words.size());
    int32_t at = 0;
    for (const char type : p.data) {
        const int32_t count = type == 'k' ? 1 : c.lanes;
        const int32_t* given = words_of(stored, from, at, count);
        if (type == 'k')
            append_keys(*given, c.lanes);
        else
            executor.words.insert(executor.words.end(), given, given + count);
        at += count;
    }
}

long Encoder::encode(const StoredNodes& stored, int32_t start) {
    const int32_t stop = stored.size();
    if (start > stop) fail(PyExc_ValueError, "fewer nodes than were computed");
    if (start > (int32_t)executor.nodes.size()) executor.nodes.resize((size_t)start, EXTERNAL);
    if (start != (int32_t)executor.nodes.size()) fail(PyExc_ValueError, "nodes that were computed before");
    for (int32_t n = start; n < stop; n++) {
        if (n >= stored.size()) fail(PyExc_IndexError, "no such node");
        const StoredNode from = stored.nodes[(size_t)n];
        const int32_t u = use_of((long)from.fused);
        if (u < 0) return from.fused;
        const Program& p = *executor.uses[u].program;
        Node c{u,          from.lanes, narrow((int64_t)executor.refs.size()),
               from.count, -1,         -1,
               0,          from.index, nullptr,
               false,      false,      false};
        if (c.lanes < 1) fail(PyExc_ValueError, "a node without rows");
        if (p.form == Form::LOOKUP && from.words != c.lanes)
            fail(PyExc_ValueError, "rows for another batch");
        if (p.form == Form::MAP) {
            if (from.count != (int32_t)p.sizes.size()) fail(PyExc_ValueError, "an operand is missing");
            append_data(c, p, stored, from);
        } else if (from.words) {
            const int32_t* data = words_of(stored, from, 0, from.words);
            c.data = narrow((int64_t)executor.words.size());
            executor.words.insert(executor.words.end(), data, data + from.words);
        }
        if ((size_t)from.first + from.count > stored.reads.size()) fail(PyExc_IndexError, "no such node");
        executor.refs.insert(executor.refs.end(), stored.reads.begin() + from.first,
                             stored.reads.begin() + from.first + from.count);
        for (int32_t k = 0; k < c.count; k++) {
            const int32_t r = executor.refs[c.reads + k];
            if (r < NOTHING || r >= n) fail(PyExc_ValueError, "a node reads a later one");
            if (r == NOTHING) continue;
            if (executor.nodes[r].external && !executor.nodes[r].value) fetch(r);
            const Node& x = executor.nodes[r];
            const int32_t wanted = p.form == Form::MAP    ? p.sizes[k]
                                   : p.form == Form::JOIN ? p.size / p.pieces
                                                          : p.size;
            if (executor.uses[x.use].program->size != wanted)
                fail(PyExc_ValueError, "a node reads a row of another size");
        }
        const Reading reading = p.form == Form::REDUCE   ? Reading::SUM
                                : p.form == Form::GATHER ? Reading::COPIES
                                                         : Reading::BY_LANE;
        const int32_t* elements =
            reading != Reading::BY_LANE && c.data >= 0 ? executor.words.data() + c.data : nullptr;
        check_reads(reading, c.lanes, executor.refs.data() + c.reads, c.count, elements, from.words,
                    [&](int32_t r) { return executor.nodes[r].lanes; });
        if (p.form == Form::JOIN && c.count > p.pieces) fail(PyExc_ValueError, "too many pieces");
        executor.nodes.push_back(c);
    }
    return DONE;
}

void copy_rows(const Numbers& table, const std::vector<int32_t>& ids, int32_t size, float* to) {
    const int64_t rows = (int64_t)table.size() / std::max(size, 1);
    for (int32_t id : ids) {
        if (id < 0 || id >= rows) fail(PyExc_IndexError, "no such row");
        memcpy(to, table.data() + (int64_t)id * size, 4 * (size_t)size);
        to += size;
    }
}

// The rows of tables.
void Encoder::look_up() {
    std::vector<int32_t> ids;
    for (size_t k = executor.fresh; k < executor.groups.size(); k++) {
        const Group& g = executor.groups[k];
        const Program& p = *executor.uses[g.use].program;
        if (p.form != Form::LOOKUP) continue;
        ids.clear();
        for (int32_t i = 0; i < g.count; i++) {
            const Node& c = executor.nodes[executor.order[g.first + i]];
            ids.insert(ids.end(), executor.words.begin() + c.data,
                       executor.words.begin() + c.data + c.lanes);
        }
        const auto at = stored_->tables->find(p.table);
        Numbers numbers;
        if (at != stored_->tables->end() && read_values(at->second.get(), numbers)) {
            copy_rows(numbers, ids, p.size, g.value);
            continue;
        }
        Ref kind = owned(PyLong_FromLong(p.table));
        Ref which = owned(PyBytes_FromStringAndSize((const char*)ids.data(), 4 * ids.size()));
        Ref found = called(asked(), "lookup", kind.get(), which.get());
        const View v(found.get());
        if (v.words() != ids.size() * p.size) fail(PyExc_ValueError, "rows of a table have another size");
        memcpy(g.value, v.as<float>(), 4 * v.words());
    }
}

// The rows of inputs, from node `start` on.
void Encoder::read_inputs(int32_t start) {
    for (size_t n = (size_t)start; n < executor.nodes.size(); n++) {
        const Node& c = executor.nodes[n];
        const Program& p = *executor.uses[c.use].program;
        if (p.form != Form::INPUT) continue;
        const Ref data = array_of(stored_, stored_->nodes->nodes[n]);
        const View v(data.get());
        if (v.words() != (size_t)c.lanes * p.size || v.raw().itemsize != 4)
            fail(PyExc_ValueError, "an input of another size");
        memcpy(c.value, v.as<float>(), v.bytes());
    }
}

namespace {

class Undo {  // brings a graph back to where it was, if nobody keeps what came since
public:
    Undo(Executor& executor, Executor::Mark since) : executor_(executor), since_(since) {}
    Undo(const Undo&) = delete;
    ~Undo() {
        if (!kept_) executor_.rewind(since_);
    }
    void keep(size_t start) {  // before which others may have computed nodes
        since_.nodes = start;
        executor_.keep(since_);
        kept_ = true;
    }

private:
    Executor& executor_;
    Executor::Mark since_;
    bool kept_ = false;
};

}  // namespace

long Encoder::extend(const StoredObject* nodes_of, int32_t start) {
    const Computing computing(*this);
    if (start < 0) fail(PyExc_ValueError, "less than no nodes");
    // an interrupt may have come before the caller knew what was computed
    if (start < (int32_t)executor.nodes.size()) executor.cut(start);
    Undo undo{executor, executor.mark()};
    stored_ = nodes_of;
    const long outcome = encode(*stored_->nodes, start);
    if (outcome != DONE) return outcome;
    if (stored_->nodes->size() < (int32_t)executor.nodes.size()) fail(PyExc_IndexError, "no such node");
    executor.arrange(start);
    read_inputs(start);
    look_up();
    {
        const Released released;
        executor.forward.compute();
    }
    undo.keep((size_t)start);
    return DONE;
}
