// The update of a trainer: all parameters of a collection in one call.
//
// A rule works number by number. The rules that trainers declare are loops (rules.inc);
// any other is byte code, run over blocks of numbers. Gradients are read, state changes
// in its place, and so do tables; new values of dense parameters go where the caller
// says, for a graph may hold the old ones.
#include <cmath>
#include <string>

#include "crew.h"
#include "kernels.h"
#include "program.h"
#include "python.h"
#include "storage_type.h"

namespace {

constexpr int MOST_STATES = 8, MOST_NUMBERS = 5;
constexpr long MOST_AT_ONCE = 1 << 12;
constexpr double MANY = 1 << 18;  // numbers, of which each of several threads has as many

struct Scalars {
    float numbers[MOST_NUMBERS];  // of the rule
    float rate;
    float factor;  // on every gradient
    float shown;   // on every old value
    float by;      // on every change
    float kept;    // of every new value
};
using Loop = void (*)(const Scalars&, long n, const float* g, float* const* state, const float* v, float* d);

#define PER_LEVEL "rules.inc"
#include "levels.inc"

enum Which : int { GIVEN, SGD, MOMENTUM, ADAGRAD, RMSPROP, ADADELTA, ADAM, AMSGRAD, WHICH };
struct About {
    const char* name;
    int numbers, states;
};
const About abouts[WHICH] = {{"", 0, 0},        {"sgd", 0, 0},      {"momentum", 1, 1}, {"adagrad", 1, 1},
                             {"rmsprop", 2, 1}, {"adadelta", 2, 2}, {"adam", 3, 2},     {"amsgrad", 3, 3}};

Loop loop_of(int which) { return BEST(loops)[which]; }

// Rules --------------------------------------------------------------------------------

struct Rule {
    int which = GIVEN, states = 0;
    double numbers[3] = {};
    std::shared_ptr<const Program> program;  // of GIVEN

    // What stays the same during an update.
    Scalars scalars(double rate, double step) const {
        Scalars w{};
        w.rate = (float)rate, w.factor = w.shown = w.by = w.kept = 1;
        const double a = numbers[0], b = numbers[1], c = numbers[2];
        if (which == MOMENTUM || which == ADAGRAD) w.numbers[0] = (float)a;
        if (which == RMSPROP || which == ADADELTA)
            w.numbers[0] = (float)a, w.numbers[1] = (float)b, w.numbers[2] = (float)(1 - b);
        if (which == ADAM || which == AMSGRAD) {
            w.numbers[0] = (float)a, w.numbers[1] = (float)(1 - a), w.numbers[2] = (float)b,
            w.numbers[3] = (float)(1 - b), w.numbers[4] = (float)c;
            w.rate = (float)(rate * std::sqrt(1 - std::pow(b, step)) / (1 - std::pow(a, step)));
        }
        return w;
    }
};

// Applies a rule to numbers wherever they are.
class Applier {
public:
    Applier(const Rule& rule, double rate, double step)
        : rule_(rule), scalars_(rule.scalars(rate, step)), loop_(loop_of(rule.which)), zeros_(MOST_AT_ONCE) {
        if (!rule.program) return;
        const Program& p = *rule.program;
        size_ = p.size;
        pieces_.reserve(size_);
        scratch_.resize((size_t)size_ * (2 + rule.states) + p.temporary + p.saved + size_);
        arguments_[1] = (float)step, arguments_[2] = (float)rate;
        float* at = scratch_.data();
        g_ = at, v_ = g_ + size_, states_ = v_ + size_, change_ = states_ + (size_t)size_ * rule.states;
        new_states_ = change_ + size_;
        frame_.lanes = frame_.room = 1;
        frame_.base.assign(p.slots(), nullptr);
        frame_.base[CONSTANT] = const_cast<float*>(p.constants.data());
        frame_.base[SAVED] = new_states_, frame_.base[TEMPORARY] = new_states_ + p.saved,
        frame_.base[VALUE] = change_;
        for (int k = 0; k < 3; k++) frame_.base[FIRST + k] = arguments_ + k;
        frame_.strides.assign(2 + rule.states, 0);
    }
    // From now on; a rule reads values times `seen`.
    void set(double factor, double seen, double shown, double by, double kept) {
        flush();
        seen_ = (float)seen;
        scalars_.factor = (float)factor, scalars_.shown = (float)shown, scalars_.by = (float)by,
        scalars_.kept = (float)kept;
        arguments_[0] = (float)factor;
    }
    // n numbers; without `g` their gradients are zero. In byte code they may wait until `flush`.
    void apply(long n, const float* g, const std::vector<float*>& states, size_t at, const float* v,
               float* d) {
        const auto piece = [&](long i, long some) {
            Piece x{some, g ? g + i : zeros_.data(), {}, v + i, d + i};
            for (int k = 0; k < rule_.states; k++) x.states[k] = states[k] + at + i;
            return x;
        };
        if (rule_.program) {
            for (long i = 0, some; i < n; i += some) put(piece(i, some = std::min(n - i, size_ - filled_)));
            return;
        }
        in_parts(n, MOST_AT_ONCE, (double)n, MANY, [&](long i, long end) {
            for (long some; i < end; i += some) {
                const Piece x = piece(i, some = g ? end - i : std::min(end - i, MOST_AT_ONCE));
                loop_(scalars_, x.n, x.g, x.states, x.v, x.d);
            }
        });
    }
    void flush() {
        if (!filled_) return;
        const Program& p = *rule_.program;
        const bool alone = pieces_.size() == 1 && filled_ == size_;
        if (alone) {
            const Piece& x = pieces_[0];
            run_on(x.g, seen_ == 1 ? x.v : gathered(), x.states);
        } else {
            float* states[MOST_STATES];
            for (int k = 0; k < rule_.states; k++) states[k] = states_ + (size_t)k * size_;
            long at = 0;
            for (const Piece& x : pieces_) {
                memcpy(g_ + at, x.g, 4 * x.n);
                for (int k = 0; k < rule_.states; k++) memcpy(states[k] + at, x.states[k], 4 * x.n);
                at += x.n;
            }
            for (long i = at; i < size_; i++) {  // any numbers: the last ones there are
                g_[i] = g_[at - 1];
                for (int k = 0; k < rule_.states; k++) states[k][i] = states[k][at - 1];
            }
            run_on(g_, gathered(), states);
        }
        Scalars w = scalars_;
        w.factor = 1;
        long at = 0;
        for (const Piece& x : pieces_) {
            for (int k = 0; k < rule_.states; k++)
                memcpy(x.states[k], new_states_ + (size_t)k * p.size + at, 4 * x.n);
            loop_(w, x.n, change_ + at, nullptr, x.v, x.d);
            at += x.n;
        }
        pieces_.clear(), filled_ = 0;
    }

private:
    struct Piece {
        long n;
        const float* g;
        float* states[MOST_STATES];
        const float* v;
        float* d;
    };
    void put(const Piece& x) {
        pieces_.push_back(x), filled_ += x.n;
        if (filled_ == size_) flush();
    }
    // The values as a rule reads them.
    const float* gathered() {
        long at = 0;
        for (const Piece& x : pieces_)
            for (long i = 0; i < x.n; i++) v_[at++] = x.v[i] * seen_;
        for (; at < size_; at++) v_[at] = v_[at - 1];
        return v_;
    }
    void run_on(const float* g, const float* v, float* const* states) {
        const Program& p = *rule_.program;
        const int first = p.first_operand();
        frame_.base[first] = const_cast<float*>(g), frame_.base[first + 1] = const_cast<float*>(v);
        for (int k = 0; k < rule_.states; k++) frame_.base[first + 2 + k] = states[k];
        run(p.forward, p, frame_);
    }

    const Rule& rule_;
    Scalars scalars_;
    Loop loop_;
    std::vector<float> zeros_, scratch_;
    std::vector<Piece> pieces_;
    long size_ = 0, filled_ = 0;
    float seen_ = 1, arguments_[3] = {1, 0, 0};  // of a program: factor, step, rate
    float *g_ = nullptr, *v_ = nullptr, *states_ = nullptr, *change_ = nullptr, *new_states_ = nullptr;
    Frame frame_;
};

// What an update is about ----------------------------------------------------------------

struct Dense {
    long n;
    const float *g, *v;
    float* d;
};
struct Block {
    std::vector<Dense> parameters;
    std::vector<float*> states;
};
struct Part {  // gradients of some rows
    const int32_t* rows;
    const float* values;
    long count;
};
struct Row {
    int32_t id;
    const float* g;
};
struct Table {
    long count = 0, width = 0;  // rows, and numbers in one
    float* array = nullptr;     // none of what is frozen
    double factor = 1;
    std::vector<float*> states;
    const float* whole = nullptr;
    std::vector<Part> parts;
    bool to_all = false;
    std::vector<Row> rows;  // each once, of those with a gradient
    std::vector<float> sums;
    const float* every = nullptr;  // the gradient of all rows, if it has one

    void add_up();
    double squares() const;
};

// Gradients of the same row become one, which is a sum in the order they came in.
void Table::add_up() {
    struct Entry {
        int32_t id, part;
        long at;
    };
    std::vector<Entry> entries;
    for (size_t k = 0; k < parts.size(); k++)
        for (long i = 0; i < parts[k].count; i++) {
            const int32_t id = parts[k].rows[i];
            if (id >= 0 && id < count) entries.push_back({id, (int32_t)k, i});
        }
    const auto values = [&](const Entry& e) { return parts[e.part].values + e.at * width; };
    const Kernels& kernel = kernels();
    if (whole || to_all) {
        if (entries.empty()) {
            every = whole;
            return;
        }
        sums.assign((size_t)count * width, 0.f);
        if (whole) memcpy(sums.data(), whole, 4 * sums.size());
        for (const Entry& e : entries) kernel.add(sums.data() + (size_t)e.id * width, values(e), width);
        every = sums.data();
        return;
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.id < b.id; });
    size_t several = 0;
    for (size_t i = 0; i < entries.size(); i++)
        several += (i + 1 < entries.size() && entries[i + 1].id == entries[i].id) &&
                   (i == 0 || entries[i - 1].id != entries[i].id);
    sums.resize(several * width);
    float* free = sums.data();
    for (size_t i = 0, end; i < entries.size(); i = end) {
        for (end = i + 1; end < entries.size() && entries[end].id == entries[i].id;) end++;
        const float* g = values(entries[i]);
        if (end > i + 1) {
            memcpy(free, g, 4 * width);
            for (size_t k = i + 1; k < end; k++) kernel.add(free, values(entries[k]), width);
            g = free, free += width;
        }
        rows.push_back({entries[i].id, g});
    }
}
double Table::squares() const {
    const Kernels& kernel = kernels();
    double found = every ? kernel.squares(every, count * width) : 0;
    for (const Row& r : rows) found += kernel.squares(r.g, width);
    return found;
}

struct Update {
    double rate, threshold, step, kept;
    std::vector<Block> blocks;
    std::vector<Table> tables, frozen_tables;
    std::vector<Dense> frozen;

    // The norm of all gradients. With clipping nothing changes if it is not finite.
    double run(const Rule& rule) {
        for (Table& t : tables) t.add_up();
        for (Table& t : frozen_tables) t.add_up();
        const double norm = std::sqrt(squares());
        const bool clips = threshold > 0;
        if (clips && !std::isfinite(norm)) return norm;
        const double factor = clips && norm > threshold ? threshold / norm : 1;
        Applier to(rule, rate, step);
        to.set(factor, 1, 1, 1, kept);
        for (const Block& b : blocks) {
            size_t at = 0;
            for (const Dense& x : b.parameters) {
                to.apply(x.n, x.g, b.states, at, x.v, x.d);
                at += x.n;
            }
        }
        for (const Table& t : tables) {
            if (t.to_all) {
                to.set(factor, t.factor, t.factor, 1, kept);
                to.apply(t.count * t.width, t.every, t.states, 0, t.array, t.array);
                continue;
            }
            to.set(factor, t.factor, 1, 1 / t.factor, 1);
            for (const Row& r : t.rows) {
                const size_t at = (size_t)r.id * t.width;
                to.apply(t.width, r.g, t.states, at, t.array + at, t.array + at);
            }
        }
        to.flush();
        return norm;
    }
    double squares() const {
        const Kernels& kernel = kernels();
        double found = 0;
        for (const Block& b : blocks)
            for (const Dense& x : b.parameters)
                if (x.g) found += kernel.squares(x.g, x.n);
        for (const Dense& x : frozen) found += kernel.squares(x.g, x.n);
        for (const Table& t : tables) found += t.squares();
        for (const Table& t : frozen_tables) found += t.squares();
        return found;
    }
};

// Python's side --------------------------------------------------------------------------

struct RuleObject {
    PyObject_HEAD Rule* rule;
};
PyTypeObject* rule_type;

// (name of a loop or a Program, numbers, arrays of state)
PyObject* new_rule(PyTypeObject* type, PyObject* args, PyObject*) {
    return guarded([&]() -> PyObject* {
        PyObject *what, *numbers;
        int states;
        if (!PyArg_ParseTuple(args, "OO!i", &what, &PyTuple_Type, &numbers, &states)) throw Failed();
        auto rule = std::make_unique<Rule>();
        rule->states = states;
        if (states < 0 || states > MOST_STATES) fail(PyExc_ValueError, "too many arrays of state");
        if (PyUnicode_Check(what)) {
            for (int k = 1; k < WHICH; k++)
                if (!PyUnicode_CompareWithASCIIString(what, abouts[k].name)) rule->which = k;
            const About& about = abouts[rule->which];
            if (rule->which == GIVEN) fail(PyExc_ValueError, "there is no such rule");
            if (PyTuple_GET_SIZE(numbers) != about.numbers || states != about.states)
                fail(PyExc_ValueError, "the rule has other numbers or states");
            for (int k = 0; k < about.numbers; k++) rule->numbers[k] = number(PyTuple_GET_ITEM(numbers, k));
        } else {
            rule->program = program_in(what);
            const Program& p = *rule->program;
            const size_t operands = 2 + (size_t)states;
            bool fits = p.form == Form::MAP && p.sizes == std::vector<int32_t>(operands, p.size) &&
                        p.weight_sizes == std::vector<int32_t>(3, 1);
            fits = fits && p.size <= MOST_AT_ONCE && p.data.empty() && p.saved == states * p.size;
            fits = fits && !p.hoisted && !p.differentiable;
            if (!fits) fail(PyExc_ValueError, "the program is not that of a rule");
        }
        Ref self = owned(type->tp_alloc(type, 0));
        ((RuleObject*)self.get())->rule = rule.release();
        return self.release();
    });
}
void free_rule(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete ((RuleObject*)self)->rule;
    type->tp_free(self);
    Py_DECREF(type);
}

// Takes apart what Python gives; the arrays stay where they are as long as this lives.
struct Reader {
    struct Changed {
        Ref storage, values;
    };
    const Rule& rule;
    std::vector<View> views;
    std::vector<Changed> changed;

    PyObject* item(PyObject* tuple, Py_ssize_t k) { return PyTuple_GET_ITEM(tuple, k); }
    const View& words(PyObject* array, bool writable, long n) {
        views.emplace_back(array, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO);
        const View& v = views.back();
        if (v.raw().itemsize != 4 || (n >= 0 && (long)v.words() != n))
            fail(PyExc_ValueError, "an array of another size or type");
        return v;
    }
    float* floats(PyObject* array, bool writable, long n) { return words(array, writable, n).as<float>(); }
    std::vector<float*> states(PyObject* given, long n) {
        if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != rule.states)
            fail(PyExc_ValueError, "the rule has other states");
        std::vector<float*> found;
        for (int k = 0; k < rule.states; k++) found.push_back(floats(item(given, k), true, n));
        return found;
    }
    PyObject* list(PyObject* given) {
        if (!PyList_Check(given)) fail(PyExc_TypeError, "no list");
        return given;
    }
    PyObject* tuple(PyObject* given, Py_ssize_t n) {
        if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != n)
            fail(PyExc_TypeError, "no tuple of that size");
        return given;
    }
    // (states, storages, arrays for new values)
    Block block(PyObject* given) {
        tuple(given, 3);
        PyObject *storages = item(given, 1), *fresh = list(item(given, 2));
        if (!PyTuple_Check(storages)) fail(PyExc_TypeError, "storages are no tuple");
        const Py_ssize_t count = PyTuple_GET_SIZE(storages);
        if (PyList_GET_SIZE(fresh) != count) fail(PyExc_ValueError, "lists of different lengths");
        Block b;
        long total = 0;
        for (Py_ssize_t k = 0; k < count; k++) {
            PyObject* storage = item(storages, k);
            if (!PyObject_TypeCheck(storage, storage_type)) fail(PyExc_TypeError, "no Storage");
            const View& v = words(values_on_host(storage).get(), false, -1);
            Dense x{(long)v.words(), nullptr, v.as<float>(), nullptr};
            x.d = floats(PyList_GET_ITEM(fresh, k), true, x.n);
            const Ref gradient = gradient_on_host(storage);
            if (gradient.get() != Py_None) x.g = floats(gradient.get(), false, x.n);
            total += x.n;
            b.parameters.push_back(x);
            changed.push_back({Ref(Py_NewRef(storage)), Ref(Py_NewRef(PyList_GET_ITEM(fresh, k)))});
        }
        b.states = states(item(given, 0), total);
        return b;
    }
    // Let storages have their new values, and no gradient.
    void store() {
        for (const Changed& x : changed) give_values((StorageObject*)x.storage.get(), x.values.get());
    }
    // (rows, numbers in one, array or None, factor, states, whole gradient or None, [(ids, gradients)], to
    // all)
    Table table(PyObject* given) {
        tuple(given, 8);
        Table t;
        t.count = integer(item(given, 0)), t.width = integer(item(given, 1));
        if (t.count < 0 || t.width < 0 || (t.width && t.count > (1L << 40) / t.width))
            fail(PyExc_ValueError, "no size");
        const long n = t.count * t.width;
        if (item(given, 2) != Py_None) {
            t.array = floats(item(given, 2), true, n);
            t.states = states(item(given, 4), n);
        }
        t.factor = number(item(given, 3));
        if (item(given, 5) != Py_None) t.whole = floats(item(given, 5), false, n);
        PyObject* parts = list(item(given, 6));
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(parts); k++) {
            PyObject* pair = tuple(PyList_GET_ITEM(parts, k), 2);
            const View& ids = words(item(pair, 0), false, -1);
            Part p{ids.as<int32_t>(), nullptr, (long)ids.words()};
            p.values = floats(item(pair, 1), false, p.count * t.width);
            t.parts.push_back(p);
        }
        const int all = PyObject_IsTrue(item(given, 7));
        if (all < 0) throw Failed();
        t.to_all = all || t.whole;
        return t;
    }
};

// (rule, (rate, threshold, step, kept), blocks, tables, frozen gradients, frozen tables) -> norm
PyObject* update(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *given, *blocks, *tables, *frozen, *frozen_tables;
        Update u;
        if (!PyArg_ParseTuple(args, "O!(dddd)O!O!O!O!", rule_type, &given, &u.rate, &u.threshold, &u.step,
                              &u.kept, &PyList_Type, &blocks, &PyList_Type, &tables, &PyList_Type, &frozen,
                              &PyList_Type, &frozen_tables))
            throw Failed();
        const Rule& rule = *((RuleObject*)given)->rule;
        Reader in{rule, {}, {}};
        in.views.reserve(64);
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(blocks); k++)
            u.blocks.push_back(in.block(PyList_GET_ITEM(blocks, k)));
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(tables); k++) {
            u.tables.push_back(in.table(PyList_GET_ITEM(tables, k)));
            if (!u.tables.back().array) fail(PyExc_ValueError, "a table without values");
        }
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(frozen); k++) {
            const View& v = in.words(PyList_GET_ITEM(frozen, k), false, -1);
            u.frozen.push_back({(long)v.words(), v.as<float>(), nullptr, nullptr});
        }
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(frozen_tables); k++)
            u.frozen_tables.push_back(in.table(PyList_GET_ITEM(frozen_tables, k)));
        double norm = 0;
        {
            const Released released;
            norm = u.run(rule);
        }
        if (!(u.threshold > 0) || std::isfinite(norm)) in.store();
        return PyFloat_FromDouble(norm);
    });
}

PyMethodDef functions[] = {{"update", update, METH_VARARGS,
                            "(rule, (rate, threshold, step, kept), blocks, tables, frozen, frozen tables): "
                            "change all by their gradients; the norm of these."},
                           {nullptr, nullptr, 0, nullptr}};
PyType_Slot rule_slots[] = {
    {Py_tp_new, (void*)new_rule},
    {Py_tp_dealloc, (void*)free_rule},
    {Py_tp_doc, (void*)"A trainer's rule: (loop or Program, numbers, arrays of state)."},
    {0, nullptr}};
PyType_Spec rule_spec = {"dynetjax.engine.native.core.Rule", sizeof(RuleObject), 0, Py_TPFLAGS_DEFAULT,
                         rule_slots};

}  // namespace

void add_updates(PyObject* module) {
    rule_type = add_type(module, "Rule", rule_spec);
    if (PyModule_AddFunctions(module, functions)) throw Failed();
}
