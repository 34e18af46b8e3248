// Functions that make nodes: as they were made before, where that is known; else by Python, which
// checks all, and whose nodes are remembered.

#include <cmath>

#include "graph_type.h"

// After Python.h:
#include <structmember.h>

namespace {

// An argument that is part of a node's data.
struct Argument {
    char letter;        // i: an int, f: a float
    char kept;          // as which of these a node has it
    int32_t axis;       // i: below the size of this axis of the first operand; -1: of the axis that the next
                        // argument names; -2: below `high`
    bool one_lane;      // the first operand has to be no batch
    double low, high;   // f: bounds
    bool above, below;  // these themselves are none
    bool floats;        // ints are left to Python
    bool has_default;
    double fallback;
};

struct FunctionObject {
    PyObject_HEAD vectorcallfunc call;
    int32_t number;
    int32_t operands;                  // how many; -1: a list of them comes first
    bool alike;                        // a list of rows of one kind makes one node that reads them all
    bool by_batch;                     // what is made follows from batch sizes
    std::vector<Argument>* arguments;  // of other arguments; letter 0 is static
    PyObject *checked, *dict, *weak;
};
PyTypeObject* function_type;
int32_t functions_made;

FunctionObject* of(PyObject* self) { return (FunctionObject*)self; }

// Things side by side, of which the first few need no memory of their own.
template <class T, size_t N>
class Few {
public:
    void push_back(const T& x) {
        if (size_ < N && more_.empty()) {
            few_[size_++] = x;
            return;
        }
        if (more_.empty()) more_.assign(few_, few_ + size_);
        more_.push_back(x);
        size_++;
    }
    size_t size() const { return size_; }
    bool empty() const { return !size_; }
    T* data() { return more_.empty() ? few_ : more_.data(); }
    T& operator[](size_t k) { return data()[k]; }
    T* begin() { return data(); }
    T* end() { return data() + size_; }

private:
    T few_[N];
    size_t size_ = 0;
    std::vector<T> more_;
};

struct Given {       // an operand of a call
    PyObject* leaf;  // that it is; null: a node
    int32_t ref, kind, lanes;
    const int32_t* lengths;
    int32_t ragged;
};

// One call: what it is given, and what decides about it.
struct Call {
    FunctionObject* f;
    NodesObject* graph = nullptr;
    GraphData* g = nullptr;
    Few<Given, 8> operands;
    Few<int32_t, 32> key;
    Few<int32_t, 4> words;  // of arguments that are data
    int32_t many = 1;       // lanes of a batch

    bool read(PyObject* x);
    bool finish();
    bool read_arguments(PyObject* const* args, Py_ssize_t count);
    bool add_static(PyObject* x);
    bool add_datum(const Argument& a, PyObject* x, PyObject* const* rest, Py_ssize_t left, Py_ssize_t at);
};

// Whether an operand is as usual; its graph becomes that of the call.
bool Call::read(PyObject* x) {
    if (!is_expression(x)) return false;
    ExpressionObject* e = (ExpressionObject*)x;
    if (!e->graph) {
        if (!is_parameter(x)) return false;
        operands.push_back({x, -1, ((LeafObject*)x)->kind, 0, nullptr, 0});
        return true;
    }
    GraphData* data = data_of(x);
    if (!data || (graph && graph != e->graph)) return false;
    graph = e->graph;
    g = data;
    const MadeNode& c = data->nodes.made[(size_t)e->index];
    const Signature& s = data->known().structures.signatures[(size_t)c.signature];
    operands.push_back({nullptr, e->index, s.kind, s.is_weight ? 0 : c.lanes,
                        data->nodes.lengths.data() + c.lengths, s.ragged});
    return true;
}

// The key of all operands; false if their batches do not go together.
bool Call::finish() {
    for (const Given& x : operands) {
        if (x.lanes <= 1 || x.lanes == many) continue;
        if (many != 1) return false;
        many = x.lanes;
    }
    key.push_back((int32_t)operands.size());
    for (size_t k = 0; k < operands.size(); k++) {
        const Given& x = operands[k];
        key.push_back(4 * x.kind + std::min(x.lanes, MANY));
        for (int32_t a = 0; a < x.ragged; a++) key.push_back(x.lengths[a]);
    }
    if (operands.size() <= 8)  // which of them are one
        for (size_t k = 1; k < operands.size(); k++)
            for (size_t j = 0; j < k; j++)
                if (operands[k].leaf ? operands[k].leaf == operands[j].leaf
                                     : operands[k].ref == operands[j].ref)
                    key.push_back(-(int32_t)(8 * k + j));
    if (f->by_batch) key.push_back(many);
    return true;
}

bool Call::add_static(PyObject* x) {
    if (x == Py_None) {
        key.push_back(0);
    } else if (PyBool_Check(x)) {
        key.push_back(x == Py_True ? 2 : 1);
    } else if (PyLong_CheckExact(x)) {
        int overflow;
        const long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
        if (overflow) return false;
        key.push_back(3);
        key.push_back((int32_t)value);
        key.push_back((int32_t)(value >> 32));
    } else if (PyFloat_CheckExact(x)) {
        const double value = PyFloat_AS_DOUBLE(x);
        int32_t bits[2];
        memcpy(bits, &value, 8);
        key.push_back(4);
        key.push_back(bits[0]);
        key.push_back(bits[1]);
    } else if (PyTuple_CheckExact(x) || PyList_CheckExact(x)) {
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(x);
        key.push_back(PyTuple_CheckExact(x) ? 5 : 6);
        key.push_back((int32_t)count);
        if (count > 16) return false;
        for (Py_ssize_t k = 0; k < count; k++)
            if (!add_static(PySequence_Fast_GET_ITEM(x, k))) return false;
    } else {
        return false;
    }
    return true;
}

bool Call::add_datum(const Argument& a, PyObject* x, PyObject* const* rest, Py_ssize_t left, Py_ssize_t at) {
    if (a.one_lane && (operands.empty() || operands[0].lanes != 1)) return false;
    if (a.letter == 'i') {
        if (!PyLong_CheckExact(x)) return false;
        const long value = PyLong_AsLong(x);
        if (value == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
        double high = a.high;
        if (a.axis != -2) {
            long axis = a.axis;
            if (axis == -1) {
                axis = 0;
                if (at + 1 < left) {
                    if (!PyLong_CheckExact(rest[at + 1])) return false;
                    axis = PyLong_AsLong(rest[at + 1]);
                    if (axis == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
                }
            }
            if (operands.empty() || operands[0].ragged) return false;
            if (operands[0].leaf) {
                const Held held(graph);
                signature_of(g->known(), ((LeafObject*)operands[0].leaf)->signature);
                held.check();
            }
            const std::vector<int32_t>* sizes = g->known().sizes_of(operands[0].kind);
            if (!sizes || axis < 0 || axis >= (long)sizes->size()) return false;
            high = (*sizes)[(size_t)axis];
        }
        if (value < 0 || value >= high || value != (int32_t)value) return false;
        int32_t bits = (int32_t)value;
        const float number = (float)value;
        if (a.kept == 'f') memcpy(&bits, &number, 4);
        words.push_back(bits);
        return true;
    }
    double value;
    if (PyFloat_CheckExact(x)) {
        value = PyFloat_AS_DOUBLE(x);
    } else if (!a.floats && PyLong_CheckExact(x)) {
        value = PyLong_AsDouble(x);
        if (value == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
    } else {
        return false;
    }
    if (std::isnan(value) ? a.low > -INFINITY || a.high < INFINITY
                          : (value < a.low || value > a.high || (a.above && value == a.low) ||
                             (a.below && value == a.high)))
        return false;
    const float number = (float)value;
    int32_t bits;
    memcpy(&bits, &number, 4);
    words.push_back(bits);
    return true;
}

bool Call::read_arguments(PyObject* const* args, Py_ssize_t count) {
    const std::vector<Argument>& all = *f->arguments;
    if ((size_t)count > all.size()) return false;
    key.push_back((int32_t)count);
    for (size_t k = 0; k < all.size(); k++) {
        const Argument& a = all[k];
        if ((Py_ssize_t)k >= count) {
            if (!a.letter) continue;  // its default is the same each time
            if (!a.has_default) return false;
            const Ref x = owned(PyFloat_FromDouble(a.fallback));
            if (!add_datum(a, x.get(), args, count, (Py_ssize_t)k)) return false;
        } else if (!a.letter) {
            if (!add_static(args[k])) return false;
        } else if (!add_datum(a, args[k], args, count, (Py_ssize_t)k)) {
            return false;
        }
    }
    return true;
}

// Making nodes again -------------------------------------------------------------------

PyObject* again(Call& call, const Template t) {
    GraphData& g = *call.g;
    Nodes& nodes = g.nodes;
    const Memo& memo = g.known().memo;
    for (Given& x : call.operands)  // leaves have a number in each graph
        if (x.leaf) x.ref = g.ref_of(x.leaf);
    const size_t users = nodes.of_user.size();
    const int32_t base = (int32_t)nodes.made.size();
    const auto push = [&](int32_t first, int32_t count) {
        for (int32_t k = 0; k < count; k++) {
            const int32_t r = memo.refs[(size_t)(first + k)];
            nodes.operands.push_back(r >= 0 ? call.operands[(size_t)r].ref : base + ~r);
        }
    };
    for (int32_t m = 0; m < t.count; m++) {
        const Made& from = memo.made[(size_t)(t.first + m)];
        MadeNode c{};
        c.signature = from.signature;
        c.lanes = from.lanes == MANY ? call.many : from.lanes;
        c.given = -1;
        c.is_part = from.is_part;
        c.is_zeros = from.is_zeros;
        c.shown = (int32_t)nodes.operands.size();
        c.shown_count = from.shown_count;
        c.count = from.count;
        push(from.shown, from.shown_count);
        c.first = c.shown;
        if (from.first != from.shown) {
            c.first = (int32_t)nodes.operands.size();
            push(from.first, from.count);
        }
        c.data = (int32_t)nodes.data.size();
        for (int32_t k = 0; k < from.data_count; k++) {
            const Datum& d = memo.data[(size_t)(from.data + k)];
            if (d.from == Datum::INDEX) {
                nodes.data.push_back((int32_t)nodes.of_user.size());
                continue;
            }
            const int32_t bits = d.from == Datum::ARGUMENT ? call.words[(size_t)d.number] : d.number;
            nodes.data.insert(nodes.data.end(), (size_t)std::max(c.lanes, 1), bits);
        }
        c.words = (int32_t)nodes.data.size() - c.data;
        c.lengths = (int32_t)nodes.lengths.size();
        for (int32_t k = 0; k < from.lengths_count; k++)
            nodes.lengths.push_back(memo.lengths[(size_t)(from.lengths + k)]);
        nodes.add(c);
    }
    PyObject* found;
    const auto results = memo.refs.begin() + t.results;
    if (t.is_tuple) {
        const std::vector<int32_t> copies(results, results + t.result_count);  // the collector may come
        Ref several = owned(PyTuple_New(t.result_count));
        for (int32_t k = 0; k < t.result_count; k++)
            PyTuple_SET_ITEM(several.get(), k,
                             owned(new_expression(call.graph, base + ~copies[(size_t)k])).release());
        found = several.release();
    } else {
        found = owned(new_expression(call.graph, base + ~*results)).release();
    }
    if (g.watched) {
        const Ref kept(found);
        tell_of(call.graph, users);
        return Py_NewRef(kept.get());
    }
    return found;
}

// Remembering --------------------------------------------------------------------------

class Recorder {
public:
    Recorder(Call& call, size_t base)
        : call_(call), g_(*call.g), memo_(g_.known().memo), base_((int32_t)base) {
        for (size_t k = 0; k < call.operands.size(); k++) {
            const Given& x = call.operands[k];
            const int32_t ref = x.leaf ? g_.ref_of(x.leaf) : x.ref;
            const bool fresh = places_.emplace(ref, (int32_t)k).second;
            distinct_ = distinct_ && (fresh || call.operands.size() <= 8);
        }
    }

    // Remember nodes from `base` on, and what was returned; nothing if that may be otherwise another time.
    void record(PyObject* result) {
        if (memo_.keys.size() > MOST_REMEMBERED) memo_ = Memo();
        const size_t starts[] = {memo_.made.size(), memo_.refs.size(), memo_.lengths.size(),
                                 memo_.data.size()};
        Template t{};
        if (distinct_ && take(result, t)) {
            bool fresh;
            memo_.keys.number(call_.key.data(), call_.key.size(), fresh);
            if (fresh) {
                memo_.templates.push_back(t);
                return;
            }
        }
        memo_.made.resize(starts[0]);
        memo_.refs.resize(starts[1]);
        memo_.lengths.resize(starts[2]);
        memo_.data.resize(starts[3]);
    }

private:
    static constexpr int32_t MOST_REMEMBERED = 1 << 15;  // calls, before all are forgotten
    Call& call_;
    GraphData& g_;
    Memo& memo_;
    int32_t base_;
    bool distinct_ = true;
    std::unordered_map<int32_t, int32_t> places_;  // of what nodes read, among the operands

    bool refs(int32_t first, int32_t count) {
        for (int32_t k = 0; k < count; k++) {
            const int32_t r = g_.nodes.operands[(size_t)(first + k)];
            if (r >= base_) {
                memo_.refs.push_back(~(r - base_));
                continue;
            }
            const auto at = places_.find(r);
            if (at == places_.end()) return false;
            memo_.refs.push_back(at->second);
        }
        return true;
    }
    bool take_node(const MadeNode& c, bool last) {
        const Signature& s = g_.known().structures.signatures[(size_t)c.signature];
        if (c.given >= 0 || (s.form != Form::MAP && !s.zeros) || c.is_several) return false;
        Made m{};
        m.signature = c.signature;
        m.is_part = c.is_part;
        m.is_zeros = c.is_zeros;
        const int32_t lanes = s.is_weight ? 0 : c.lanes;
        if (lanes > 1 && lanes != call_.many) return false;
        m.lanes = std::min(lanes, MANY);
        m.shown = m.first = (int32_t)memo_.refs.size();
        m.shown_count = c.shown_count;
        m.count = c.count;
        if (!refs(c.shown, c.shown_count)) return false;
        if (c.first != c.shown) {
            m.first = (int32_t)memo_.refs.size();
            if (!refs(c.first, c.count)) return false;
        }
        m.data = (int32_t)memo_.data.size();
        size_t given = 0;
        int32_t at = c.data;
        for (const char letter : s.letters) {
            if (letter == 'k') {
                memo_.data.push_back({Datum::INDEX, 0}), at++;
                continue;
            }
            const int32_t bits = g_.nodes.data[(size_t)at];
            if (!last && !call_.words.empty()) return false;  // which may be another one next time
            const bool from_call = last && given < call_.words.size();
            if (from_call && bits != call_.words[given]) return false;
            memo_.data.push_back(from_call ? Datum{Datum::ARGUMENT, (int32_t)given}
                                           : Datum{Datum::WORDS, bits});
            given += from_call;
            at += std::max(lanes, 1);
        }
        if (last && given != call_.words.size()) return false;
        m.data_count = (int32_t)memo_.data.size() - m.data;
        m.lengths = (int32_t)memo_.lengths.size();
        m.lengths_count = s.ragged;
        for (int32_t k = 0; k < s.ragged; k++)
            memo_.lengths.push_back(g_.nodes.lengths[(size_t)(c.lengths + k)]);
        memo_.made.push_back(m);
        return true;
    }
    bool take(PyObject* result, Template& t) {
        const size_t stop = g_.nodes.made.size();
        t.first = (int32_t)memo_.made.size();
        t.count = (int32_t)stop - base_;
        for (size_t n = (size_t)base_; n < stop; n++)
            if (!take_node(g_.nodes.made[n], n + 1 == stop)) return false;
        t.is_tuple = PyTuple_CheckExact(result);
        t.results = (int32_t)memo_.refs.size();
        t.result_count = t.is_tuple ? (int32_t)PyTuple_GET_SIZE(result) : 1;
        for (int32_t k = 0; k < t.result_count; k++) {
            PyObject* x = t.is_tuple ? PyTuple_GET_ITEM(result, k) : result;
            if (!is_expression(x) || is_leaf(x) || data_of(x) != &g_) return false;
            const int32_t node = ((ExpressionObject*)x)->index;
            if (node < base_) return false;
            memo_.refs.push_back(~(node - base_));
        }
        return true;
    }
};

PyObject* call_checked(FunctionObject* f, PyObject* const* args, size_t nargs, PyObject* names) {
    return PyObject_Vectorcall(f->checked, args, nargs, names);
}

// Have Python make the nodes, and remember them if all was as usual.
PyObject* by_python(Call& call, PyObject* const* args, size_t nargs, PyObject* list) {
    NodesObject* graph = call.graph;
    const Ref kept(Py_NewRef((PyObject*)graph));
    GraphData* g = call.g;
    const size_t base = g->nodes.made.size();
    const int64_t unlike = g->unlike;
    Ref result = owned(call_checked(call.f, args, nargs, nullptr));
    if (graph->data != g || g->unlike != unlike || g->nodes.made.size() <= base || g->busy)
        return result.release();
    if (list && PyList_GET_SIZE(list) != (Py_ssize_t)call.operands.size()) return result.release();
    for (size_t k = 0; k < call.operands.size(); k++)  // a leaf may be gone from the list, and from memory
        if (call.operands[k].leaf &&
            call.operands[k].leaf != (list ? PyList_GET_ITEM(list, (Py_ssize_t)k) : args[k]))
            return result.release();
    Recorder(call, base).record(result.get());
    return result.release();
}

// A node that reads a whole list of rows of one kind.
PyObject* all_alike(Call& call) {
    const Given& first = call.operands[0];
    if (!call.graph || first.leaf || !first.lanes || first.ragged) return nullptr;
    for (const Given& x : call.operands)
        if (x.kind != first.kind || x.lanes != first.lanes || x.leaf) return nullptr;
    GraphData& g = *call.g;
    const int32_t key[] = {call.f->number, -1, first.kind};
    const Template* t = g.known().memo.find(key, 3);
    if (!t) return nullptr;
    const Made& from = g.known().memo.made[(size_t)t->first];
    MadeNode c{};
    c.signature = from.signature;
    c.lanes = first.lanes;
    c.given = -1;
    c.first = c.shown = (int32_t)g.nodes.operands.size();
    c.count = c.shown_count = (int32_t)call.operands.size();
    for (const Given& x : call.operands) g.nodes.operands.push_back(x.ref);
    c.data = (int32_t)g.nodes.data.size();
    c.lengths = (int32_t)g.nodes.lengths.size();
    const size_t users = g.nodes.of_user.size();
    Ref made = owned(new_expression(call.graph, g.nodes.add(c)));
    if (g.watched) tell_of(call.graph, users);
    return made.release();
}
void remember_alike(Call& call, PyObject* result) {
    if (!call.graph || !is_expression(result) || is_leaf(result)) return;
    GraphData* g = data_of(result);
    if (!g || g != call.graph->data) return;
    const MadeNode& c = g->nodes.made[(size_t)((ExpressionObject*)result)->index];
    if (c.count != (int32_t)call.operands.size() || c.words || c.first != c.shown) return;
    for (size_t k = 0; k < call.operands.size(); k++)
        if (g->nodes.operands[(size_t)c.first + k] != call.operands[k].ref ||
            call.operands[k].kind != call.operands[0].kind ||
            call.operands[k].lanes != call.operands[0].lanes)
            return;
    if (g->known().structures.signatures[(size_t)c.signature].ragged || call.operands[0].ragged) return;
    Memo& memo = g->known().memo;
    const int32_t key[] = {call.f->number, -1, call.operands[0].kind};
    bool fresh;
    memo.keys.number(key, 3, fresh);
    if (!fresh) return;
    Made m{};
    m.signature = c.signature;
    Template t{};
    t.first = (int32_t)memo.made.size();
    t.count = 1;
    memo.made.push_back(m);
    memo.templates.push_back(t);
}

PyObject* call_function(PyObject* self, PyObject* const* args, size_t nargs, PyObject* names) {
    return guarded([&]() -> PyObject* {
        FunctionObject* f = of(self);
        const Py_ssize_t count = PyVectorcall_NARGS(nargs);
        const Py_ssize_t wanted = f->operands < 0 ? 1 : f->operands;
        if ((names && PyTuple_GET_SIZE(names)) || count < wanted) return call_checked(f, args, nargs, names);
        Call call;
        call.f = f;
        PyObject* list = nullptr;
        bool usual = true;
        if (f->operands < 0) {
            list = args[0];
            usual = PyList_CheckExact(list) && PyList_GET_SIZE(list) > 0;
            for (Py_ssize_t k = 0; usual && k < PyList_GET_SIZE(list); k++)
                usual = call.read(PyList_GET_ITEM(list, k));
        } else {
            for (Py_ssize_t k = 0; usual && k < wanted; k++) usual = call.read(args[k]);
        }
        if (!usual) return call_checked(f, args, nargs, names);
        if (f->alike) {
            if (count == 1)
                if (PyObject* found = all_alike(call)) return found;
            if (PyErr_Occurred()) throw Failed();
            Ref result = owned(call_checked(f, args, nargs, names));
            if (count == 1) remember_alike(call, result.get());
            return result.release();
        }
        call.key.push_back(f->number);
        if (!call.graph) {
            call.graph = current_graph();
            if (!call.graph) throw Failed();
            call.g = call.graph->data;
            if (!call.g) return call_checked(f, args, nargs, names);
        }
        if (!call.read_arguments(args + wanted, count - wanted) || !call.finish())
            return call_checked(f, args, nargs, names);
        if (const Template* t = call.g->known().memo.find(call.key.data(), call.key.size()))
            return again(call, *t);
        return by_python(call, args, nargs, list);
    });
}

// The type ----------------------------------------------------------------------------

PyObject* new_function(PyTypeObject* type, PyObject* args, PyObject*) {
    return guarded([&]() -> PyObject* {
        PyObject *checked, *arguments;
        int operands, alike, by_batch;
        if (!PyArg_ParseTuple(args, "OiOpp", &checked, &operands, &arguments, &alike, &by_batch))
            throw Failed();
        Ref self = owned(type->tp_alloc(type, 0));
        FunctionObject* f = of(self.get());
        f->call = call_function;
        f->number = functions_made++;
        f->operands = operands;
        f->alike = alike;
        f->by_batch = by_batch;
        f->arguments = new std::vector<Argument>;
        f->checked = Py_NewRef(checked);
        f->dict = owned(PyDict_New()).release();
        const Ref several = owned(PySequence_Tuple(arguments));
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(several.get()); k++) {
            Argument a{};
            PyObject* fallback;
            int axis, one_lane, above, below, floats;
            const char *letter, *as;
            if (!PyArg_ParseTuple(PyTuple_GET_ITEM(several.get(), k), "sipddpppsO", &letter, &axis,
                                  &one_lane, &a.low, &a.high, &above, &below, &floats, &as, &fallback))
                throw Failed();
            a.letter = letter[0];
            a.kept = as[0];
            a.axis = axis;
            a.one_lane = one_lane;
            a.above = above;
            a.below = below;
            a.floats = floats;
            a.has_default = fallback != Py_None && a.letter == 'f';
            if (a.has_default) a.fallback = number(fallback);
            f->arguments->push_back(a);
        }
        return self.release();
    });
}
int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(of(self)->checked);
    Py_VISIT(of(self)->dict);
    return 0;
}
int clear(PyObject* self) {
    Py_CLEAR(of(self)->checked);
    Py_CLEAR(of(self)->dict);
    return 0;
}
void free_function(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (of(self)->weak) PyObject_ClearWeakRefs(self);
    clear(self);
    delete of(self)->arguments;
    type->tp_free(self);
    Py_DECREF(type);
}
PyObject* text(PyObject* self) {
    const Ref name(PyObject_GetAttrString(self, "__qualname__"));
    if (!name.get()) return nullptr;
    return PyUnicode_FromFormat("<function %U>", name.get());
}
PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }
PyObject* get_bound(PyObject* self, PyObject* object, PyObject*) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, call), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weak), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
    {"__wrapped__", T_OBJECT, offsetof(FunctionObject, checked), READONLY,
     "What makes nodes with every check."},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, "Its name, as of any function."},
                         {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, (void*)new_function},
                       {Py_tp_dealloc, (void*)free_function},
                       {Py_tp_traverse, (void*)traverse},
                       {Py_tp_clear, (void*)clear},
                       {Py_tp_call, (void*)PyVectorcall_Call},
                       {Py_tp_repr, (void*)text},
                       {Py_tp_descr_get, (void*)get_bound},
                       {Py_tp_members, members},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, attributes},
                       {0, nullptr}};
PyType_Spec spec = {"dynetjax.core.expression.Function", sizeof(FunctionObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

void add_functions(PyObject* module) { function_type = add_type(module, "Function", spec); }
