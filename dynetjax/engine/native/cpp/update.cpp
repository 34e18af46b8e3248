// The update of a trainer: all parameters of a collection in one call.
//
// Gradients are read, state changes in its place, and so do tables; new values of dense parameters go where
// the caller says, for a graph may hold the old ones.
#include <cmath>
#include <iterator>
#include <map>

#include "kernels.h"
#include "python.h"
#include "rule.h"
#include "storage_type.h"

namespace {

// What an update is about ----------------------------------------------------------------

struct Dense {
    long n;
    const float *g, *v;
    float* d;
};
struct Block {
    const Rule* rule;
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
    const Rule* rule = nullptr;
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
            g = free;
            free += width;
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

// n numbers, whose state begins with number `at` of each array.
Changes changes(long n, const float* g, const float* v, float* d, const std::vector<float*>& states,
                long at) {
    Changes x{n, g, v, d, {}};
    for (size_t k = 0; k < states.size(); k++) x.states[k] = states[k] + at;
    return x;
}

struct Update {
    double rate, threshold, step, kept;
    std::vector<Block> blocks;
    std::vector<Table> tables, frozen_tables;
    std::vector<Dense> frozen;
    std::vector<float> common;  // the sum of squares of what is updated, and what rules go on with

    // The norm of all gradients. With clipping nothing changes if it is not finite.
    double run() {
        for (Table& t : tables) t.add_up();
        for (Table& t : frozen_tables) t.add_up();
        const double own = squares(), norm = std::sqrt(own + squares_of_frozen());
        const bool clips = threshold > 0;
        if (clips && !std::isfinite(norm)) return norm;
        const double factor = clips && norm > threshold ? threshold / norm : 1;
        common.at(0) = (float)(own * factor * factor);
        std::map<const Rule*, Applier> appliers;
        const auto of = [&](const Rule* rule) -> Applier& {
            return appliers.try_emplace(rule, *rule, rate, step, common).first->second;
        };
        for (const Block& b : blocks) {
            Applier& to = of(b.rule);
            to.set(factor, 1, kept, kept);
            long at = 0;
            for (const Dense& x : b.parameters) {
                to.apply(changes(x.n, x.g, x.v, x.d, b.states, at));
                at += x.n;
            }
        }
        for (const Table& t : tables) {
            Applier& to = of(t.rule);
            if (t.to_all) {
                to.set(factor, t.factor, t.factor * kept, kept);
                to.apply(changes(t.count * t.width, t.every, t.array, t.array, t.states, 0));
                continue;
            }
            to.set(factor, t.factor, 1, 1 / t.factor);
            for (const Row& r : t.rows) {
                const long at = (long)r.id * t.width;
                to.apply(changes(t.width, r.g, t.array + at, t.array + at, t.states, at));
            }
        }
        for (const auto& entry : appliers) {  // all of which make the same
            const std::vector<float>& made = entry.second.made();
            std::copy(made.begin(), made.end(), common.begin() + 1);
        }
        return norm;
    }
    double squares() const {
        const Kernels& kernel = kernels();
        double found = 0;
        for (const Block& b : blocks)
            for (const Dense& x : b.parameters)
                if (x.g) found += kernel.squares(x.g, x.n);
        for (const Table& t : tables) found += t.squares();
        return found;
    }
    double squares_of_frozen() const {
        double found = 0;
        for (const Dense& x : frozen) found += kernels().squares(x.g, x.n);
        for (const Table& t : frozen_tables) found += t.squares();
        return found;
    }
};

// Python's side --------------------------------------------------------------------------

struct RuleObject {
    PyObject_HEAD Rule* rule;
};
PyTypeObject* rule_type;

// (Programs that have two, three and all terms); see Rule
PyObject* new_rule(PyTypeObject* type, PyObject* args, PyObject*) {
    return guarded([&]() -> PyObject* {
        PyObject* given[std::size(COUNTS)];
        if (!PyArg_ParseTuple(args, "OOO", &given[0], &given[1], &given[2])) throw Failed();
        std::vector<std::shared_ptr<const Program>> programs;
        for (PyObject* p : given) programs.push_back(program_in(p));
        auto rule = std::make_unique<Rule>(std::move(programs));
        Ref self = owned(type->tp_alloc(type, 0));
        ((RuleObject*)self.get())->rule = rule.release();
        return self.release();
    });
}
PyObject* get_states(PyObject* self, void*) { return PyLong_FromLong(((RuleObject*)self)->rule->states); }
void free_rule(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete ((RuleObject*)self)->rule;
    type->tp_free(self);
    Py_DECREF(type);
}

// Takes apart what Python gives; the arrays stay where they are as long as this lives.
struct Reader {
    struct Changed {
        Ref storage;
        Numbers values;
    };
    struct ChangedTable {
        Ref storage, values;
    };
    std::vector<View> views;
    std::vector<Changed> changed;
    std::vector<ChangedTable> changed_tables;
    size_t common = 0;  // numbers that there are

    PyObject* item(PyObject* tuple, Py_ssize_t k) { return PyTuple_GET_ITEM(tuple, k); }
    const View& words(PyObject* array, bool writable, long n) {
        views.emplace_back(array, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO);
        const View& v = views.back();
        if (v.raw().itemsize != 4 || (n >= 0 && (long)v.words() != n))
            fail(PyExc_ValueError, "an array of another size or type");
        return v;
    }
    float* floats(PyObject* array, bool writable, long n) { return words(array, writable, n).as<float>(); }
    const Rule* rule(PyObject* given) {
        if (!PyObject_TypeCheck(given, rule_type)) fail(PyExc_TypeError, "no Rule");
        const Rule* found = ((RuleObject*)given)->rule;
        if ((found->common || found->made) &&
            (found->common != (long)common || found->made != (long)common - 1))
            fail(PyExc_ValueError, "the rule has other numbers in common");
        return found;
    }
    std::vector<float*> states(const Rule& rule, PyObject* given, long n) {
        if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != rule.states)
            fail(PyExc_ValueError, "the rule has other states");
        std::vector<float*> found;
        for (int k = 0; k < rule.states; k++) found.push_back(floats(item(given, k), true, n));
        return found;
    }
    PyObject* tuple(PyObject* given, Py_ssize_t n) {
        if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != n)
            fail(PyExc_TypeError, "no tuple of that size");
        return given;
    }
    StorageObject* storage(PyObject* given) {
        if (!PyObject_TypeCheck(given, storage_type)) fail(PyExc_TypeError, "no Storage");
        return (StorageObject*)given;
    }
    // (rule, states, storages)
    Block block(PyObject* given) {
        tuple(given, 3);
        PyObject* storages = item(given, 2);
        if (!PyTuple_Check(storages)) fail(PyExc_TypeError, "storages are no tuple");
        Block b{rule(item(given, 0)), {}, {}};
        long total = 0;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(storages); k++) {
            StorageObject* s = storage(item(storages, k));
            const View& v = words(values_on_host((PyObject*)s).get(), false, -1);
            Dense x{(long)v.words(), nullptr, v.as<float>(), nullptr};
            Numbers fresh = array_for_values(s, v.words());
            x.d = fresh.data();
            x.g = dense_gradient(s, x.n);
            total += x.n;
            b.parameters.push_back(x);
            changed.push_back({Ref(Py_NewRef((PyObject*)s)), std::move(fresh)});
        }
        b.states = states(*b.rule, item(given, 1), total);
        return b;
    }
    const float* dense_gradient(StorageObject* s, long n) {
        const Ref gradient = gradient_on_host((PyObject*)s);
        return gradient.get() == Py_None ? nullptr : floats(gradient.get(), false, n);
    }
    Dense frozen(PyObject* given) {
        const Ref gradient = gradient_on_host((PyObject*)storage(given));
        if (gradient.get() == Py_None) return {0, nullptr, nullptr, nullptr};
        const View& v = words(gradient.get(), false, -1);
        return {(long)v.words(), v.as<float>(), nullptr, nullptr};
    }
    // The size of a table and its gradient.
    Table gradient_of(StorageObject* s) {
        Table t;
        const Ref shape = attribute((PyObject*)s, "shape");
        if (!PyTuple_Check(shape.get()) || !PyTuple_GET_SIZE(shape.get())) fail(PyExc_TypeError, "no table");
        t.count = integer(item(shape.get(), 0));
        t.width = 1;
        for (Py_ssize_t k = 1; k < PyTuple_GET_SIZE(shape.get()); k++) {
            t.width *= word(item(shape.get(), k));
            if (t.width < 0 || t.width > 1L << 31) fail(PyExc_ValueError, "no size");
        }
        if (t.count < 0 || (t.width && t.count > (1L << 40) / t.width)) fail(PyExc_ValueError, "no size");
        t.whole = dense_gradient(s, t.count * t.width);
        if (!s->parts || s->parts == Py_None) return t;
        const Ref parts = owned(PySequence_Tuple(s->parts));
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(parts.get()); k++) {
            PyObject* pair = tuple(item(parts.get(), k), 2);
            const View& ids = words(item(pair, 0), false, -1);
            Part p{ids.as<int32_t>(), nullptr, (long)ids.words()};
            const Ref values = array_on_host(item(pair, 1));
            p.values = floats(values.get(), false, p.count * t.width);
            t.parts.push_back(p);
        }
        return t;
    }
    // (rule, states, table)
    Table table(PyObject* given, bool to_all) {
        tuple(given, 3);
        StorageObject* s = storage(item(given, 2));
        Table t = gradient_of(s);
        const long n = t.count * t.width;
        const bool is_own = is_array(s->array) && Py_REFCNT(s->array) == 1 && !decays(s);
        Ref array(is_own ? Py_NewRef(s->array) : nullptr);
        if (!is_own) {
            const Ref stored = called((PyObject*)s, "stored_on_host");  // (array, factor)
            tuple(stored.get(), 2);
            array = Ref(Py_NewRef(item(stored.get(), 0)));
            t.factor = number(item(stored.get(), 1));
        }
        t.array = floats(array.get(), true, n);
        t.rule = rule(item(given, 0));
        t.states = states(*t.rule, item(given, 1), n);
        t.to_all = to_all || t.whole;
        changed_tables.push_back({Ref(Py_NewRef((PyObject*)s)), std::move(array)});
        return t;
    }
    static bool decays(const StorageObject* s) { return s->factor && s->factor != Py_None; }
    // Let storages have their new values, and parameters no gradient.
    void store(const std::vector<Table>& tables, double kept) {
        for (const Changed& x : changed)
            give_values((StorageObject*)x.storage.get(), x.values.array().get());
        for (size_t k = 0; k < tables.size(); k++) {
            const Ref& array = changed_tables[k].values;
            StorageObject* table = (StorageObject*)changed_tables[k].storage.get();
            if (decays(table)) {
                const Ref left = owned(PyFloat_FromDouble(tables[k].to_all ? 1 : tables[k].factor * kept));
                called((PyObject*)table, "wrote", array.get(), left.get());
            } else {
                Py_XSETREF(table->array, Py_NewRef(array.get()));  // another thread may have moved it
            }
        }
    }
};

// ((rate, threshold, step, kept), blocks, tables, which of these go to all rows, frozen parameters, frozen
// tables, numbers in common) -> norm
PyObject* update(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *blocks, *tables, *dense, *frozen, *frozen_tables, *common;
        Update u;
        if (!PyArg_ParseTuple(args, "(dddd)O!O!O!O!O!O", &u.rate, &u.threshold, &u.step, &u.kept,
                              &PyList_Type, &blocks, &PyList_Type, &tables, &PyTuple_Type, &dense,
                              &PyList_Type, &frozen, &PyList_Type, &frozen_tables, &common))
            throw Failed();
        Reader in;
        in.views.reserve(64);
        float* numbers = in.floats(common, true, -1);
        in.common = in.views.back().words();
        if (!in.common) fail(PyExc_ValueError, "no numbers in common");
        u.common.assign(numbers, numbers + in.common);
        if (PyTuple_GET_SIZE(dense) != PyList_GET_SIZE(tables))
            fail(PyExc_ValueError, "as many flags as tables are needed");
        for (const Ref& x : items(blocks)) u.blocks.push_back(in.block(x.get()));
        for (const Ref& x : items(tables))
            u.tables.push_back(in.table(x.get(), PyTuple_GET_ITEM(dense, u.tables.size()) == Py_True));
        for (const Ref& x : items(frozen)) u.frozen.push_back(in.frozen(x.get()));
        for (const Ref& x : items(frozen_tables))
            u.frozen_tables.push_back(in.gradient_of(in.storage(x.get())));
        double norm = 0;
        {
            const Released released;
            norm = u.run();
        }
        if (!(u.threshold > 0) || std::isfinite(norm)) {
            std::copy(u.common.begin(), u.common.end(), numbers);
            in.store(u.tables, u.kept);
        }
        return PyFloat_FromDouble(norm);
    });
}

PyMethodDef functions[] = {
    {"update", update, METH_VARARGS,
     "((rate, threshold, step, kept), blocks, tables, which of these go to all rows, frozen, frozen tables, "
     "numbers in common): change all by their gradients; the norm of these."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef rule_attributes[] = {{"states", get_states, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot rule_slots[] = {{Py_tp_getset, rule_attributes},
                            {Py_tp_new, (void*)new_rule},
                            {Py_tp_dealloc, (void*)free_rule},
                            {Py_tp_doc, (void*)"A trainer's rule: (Program, Program, Program)."},
                            {0, nullptr}};
PyType_Spec rule_spec = {"dynetjax.engine.native.core.Rule", sizeof(RuleObject), 0, Py_TPFLAGS_DEFAULT,
                         rule_slots};

}  // namespace

void add_updates(PyObject* module) {
    rule_type = add_type(module, "Rule", rule_spec);
    if (PyModule_AddFunctions(module, functions)) throw Failed();
}
