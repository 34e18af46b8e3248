// The planner for Python: `FlatGraph`.
#include <unordered_map>

#include "flat.h"
#include "stored_type.h"

namespace {

View words_of(PyObject* owner, const char* name, int flags = PyBUF_CONTIG_RO) {
    View found(attribute(owner, name).get(), flags);
    if (found.raw().itemsize != 4) fail(PyExc_TypeError, "an array is not of int32");
    return found;
}
// Offsets into as many `items`: one more than there are of what they are for.
void check_offsets(const View& first, size_t items) {
    const int32_t* at = first.as<int32_t>();
    if (!first.words() || at[0] != 0 || (size_t)at[first.words() - 1] != items)
        fail(PyExc_ValueError, "offsets do not fit");
    for (size_t k = 1; k < first.words(); k++)
        if (at[k] < at[k - 1]) fail(PyExc_ValueError, "offsets do not fit");
}

struct FactsView {
    View component, cyclic, first, groups, aligned;
    Facts facts;
    explicit FactsView(PyObject* p)
        : component(words_of(p, "component")),
          cyclic(words_of(p, "cyclic")),
          first(words_of(p, "first")),
          groups(words_of(p, "groups")),
          aligned(words_of(p, "aligned")),
          facts{component.as<int32_t>(), component.words(),    cyclic.as<int32_t>(),  cyclic.words(),
                first.as<int32_t>(),     groups.as<int32_t>(), aligned.as<int32_t>(), groups.words()} {
        check_offsets(first, groups.words());
        if (first.words() != component.words() + 1 || aligned.words() != groups.words())
            fail(PyExc_ValueError, "facts of another number of ops");
    }
};
struct AddressesView {
    View valid, first, leaves;
    Addresses addresses;
    explicit AddressesView(PyObject* p)
        : valid(words_of(p, "valid")),
          first(words_of(p, "first")),
          leaves(words_of(p, "leaves")),
          addresses{valid.as<int32_t>(), first.as<int32_t>(), leaves.as<int32_t>(), valid.words(),
                    leaves.words()} {
        check_offsets(first, leaves.words());
        if (first.words() != valid.words() + 1) fail(PyExc_ValueError, "addresses of another number of ops");
    }
};

struct FlatObject {
    PyObject_HEAD FlatGraph* graph;
    bool bound;
    PyObject* fused;
};
FlatGraph& graph_of(PyObject* self) { return *((FlatObject*)self)->graph; }

Ref pairs_of(const std::vector<int32_t>& numbers) {
    Ref found = owned(PyList_New(0));
    for (size_t k = 0; k < numbers.size(); k += 2) {
        push(found.get(), owned(Py_BuildValue("(ii)", numbers[k], numbers[k + 1])).get());
    }
    return found;
}

// Building -----------------------------------------------------------------------------

class Builder {
public:
    FlatGraph& graph;
    Ref fused;

    // `read_by` tells how nodes of a fused op read others, `imported` which one stands for rows of another.
    Builder(FlatGraph& g, const StoredNodes& s, PyObject* read_by, PyObject* imported)
        : graph(g), fused(owned(PyList_New(0))), stored_(s), read_by_(read_by), imported_(imported) {}

    void build(int32_t start) {
        const int32_t stop = stored_.size();
        if (start < 0 || start > stop) fail(PyExc_ValueError, "no such node");
        graph.count = stop - start;
        graph.nodes.reserve((size_t)graph.count);
        graph.refs.reserve(2 * (size_t)graph.count);
        for (int32_t n = start; n < stop; n++) {
            if (n >= stored_.size()) fail(PyExc_IndexError, "no such node");
            add(stored_.nodes[(size_t)n]);
        }
        if (start) import(start);
        check();
    }

private:
    const StoredNodes& stored_;
    PyObject *read_by_, *imported_;
    std::unordered_map<int32_t, int32_t> numbers_;
    std::vector<Reading> readings_;  // of fused ops
    std::vector<int32_t> picked_;    // by each node, how many elements

    int32_t number_of(int32_t op) {
        const auto known = numbers_.find(op);
        if (known != numbers_.end()) return known->second;
        Ref number = owned(PyLong_FromLong(op)), told = owned(PyObject_CallOneArg(read_by_, number.get()));
        const long form = integer(told.get());
        if (form < 0 || form > (int)Reading::COPIES) fail(PyExc_ValueError, "no such way to read");
        readings_.push_back((Reading)form);
        push(fused.get(), number.get());
        return numbers_[op] = (int32_t)readings_.size() - 1;
    }
    void add(StoredNode c) {
        FlatGraph::Node n{number_of(c.fused), c.lanes, (int32_t)graph.refs.size(), c.count, -1, false, 0, 0};
        const Reading reading = readings_[n.op];
        n.copies = reading == Reading::COPIES;
        if ((size_t)c.first + c.count > stored_.reads.size() ||
            (size_t)c.data + c.words > stored_.data.size())
            fail(PyExc_IndexError, "no such node");
        graph.refs.insert(graph.refs.end(), stored_.reads.begin() + c.first,
                          stored_.reads.begin() + c.first + c.count);
        picked_.push_back(0);
        if (reading != Reading::BY_LANE && c.words) {
            n.chosen = narrow((int64_t)graph.elements.size());
            picked_.back() = c.words;
            graph.elements.insert(graph.elements.end(), stored_.data.begin() + c.data,
                                  stored_.data.begin() + c.data + c.words);
        }
        graph.nodes.push_back(n);
    }
    // Number what is read from `start` on, and what was computed before after that.
    void import(int32_t start) {
        std::vector<int32_t>& older = graph.older;
        for (int32_t r : graph.refs)
            if (r >= 0 && r < start) older.push_back(r);
        std::sort(older.begin(), older.end());
        older.erase(std::unique(older.begin(), older.end()), older.end());
        for (int32_t& r : graph.refs) {
            if (r >= start)
                r -= start;
            else if (r >= 0)
                r = graph.count + (int32_t)(std::lower_bound(older.begin(), older.end(), r) - older.begin());
        }
        for (int32_t r : older) {
            if (r >= stored_.size()) fail(PyExc_IndexError, "no such node");
            const StoredNode c = stored_.nodes[(size_t)r];
            Ref number = owned(PyLong_FromLong(c.fused));
            Ref stands = owned(PyObject_CallOneArg(imported_, number.get()));
            const int32_t op = number_of(word(stands.get()));
            graph.nodes.push_back({op, c.lanes, (int32_t)graph.refs.size(), 0, -1, false, 0, 0});
        }
    }
    void check() const {
        for (int32_t k = 0; k < (int32_t)graph.nodes.size(); k++) {
            const FlatGraph::Node& n = graph.nodes[k];
            const int32_t* refs = graph.refs.data() + n.reads;
            for (int32_t j = 0; j < n.count; j++)
                if (refs[j] < NOTHING || (refs[j] >= k && refs[j] < graph.count) ||
                    refs[j] >= (int32_t)graph.nodes.size())
                    fail(PyExc_ValueError, "a node reads a later one");
            const Reading reading = k < graph.count ? readings_[n.op] : Reading::BY_LANE;
            const int32_t* elements = n.chosen < 0 ? nullptr : graph.elements.data() + n.chosen;
            check_reads(reading, n.lanes, refs, n.count, elements, elements ? picked_[k] : 0,
                        [&](int32_t r) { return graph.nodes[r].lanes; });
        }
    }
};

// Methods ------------------------------------------------------------------------------

PyObject* new_flat(PyTypeObject* type, PyObject* args, PyObject*) {
    return guarded([&]() -> PyObject* {
        PyObject *stored, *read_by, *imported;
        int start;
        if (!PyArg_ParseTuple(args, "OiOO", &stored, &start, &read_by, &imported)) throw Failed();
        const StoredNodes& nodes = *stored_in(stored)->nodes;
        Ref self = owned(type->tp_alloc(type, 0));
        FlatObject* flat = (FlatObject*)self.get();
        flat->graph = new FlatGraph();
        Builder builder(*flat->graph, nodes, read_by, imported);
        builder.build(start);
        flat->fused = builder.fused.release();
        return self.release();
    });
}
void free_flat(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete ((FlatObject*)self)->graph;
    Py_XDECREF(((FlatObject*)self)->fused);
    type->tp_free(self);
    Py_DECREF(type);
}
PyObject* count(PyObject* self, void*) { return PyLong_FromLong(graph_of(self).count); }
PyObject* older(PyObject* self, void*) {
    return guarded([&] { return list_of(graph_of(self).older).release(); });
}
PyObject* fused(PyObject* self, void*) { return Py_NewRef(((FlatObject*)self)->fused); }

PyObject* bind(PyObject* self, PyObject* sequence) {
    return guarded([&]() -> PyObject* {
        const std::vector<int32_t> ops = words_in(sequence);
        if ((Py_ssize_t)ops.size() != PyList_GET_SIZE(((FlatObject*)self)->fused))
            fail(PyExc_ValueError, "bound to another number of ops");
        if (((FlatObject*)self)->bound) fail(PyExc_ValueError, "bound twice");
        graph_of(self).bind(ops);
        ((FlatObject*)self)->bound = true;
        return Py_NewRef(Py_None);
    });
}
// The facts that a call is told, which cover the graph.
FactsView facts_for(PyObject* self, PyObject* p) {
    FactsView found(p);
    const std::string wrong =
        ((FlatObject*)self)->bound ? graph_of(self).check(found.facts) : "not bound to a family";
    if (!wrong.empty()) fail(PyExc_ValueError, wrong.c_str());
    return found;
}
PyObject* edges(PyObject* self, PyObject* p) {
    return guarded([&]() -> PyObject* {
        const FactsView f = facts_for(self, p);
        const View known(attribute(p, "known").get(), PyBUF_CONTIG);
        const size_t groups = f.facts.ops ? known.bytes() / f.facts.ops : 0;
        for (size_t k = 0; k < f.facts.leaves; k++)
            if (f.facts.groups[k] < 0 || (size_t)f.facts.groups[k] >= groups)
                fail(PyExc_ValueError, "no such group");
        return pairs_of(graph_of(self).edges(f.facts, known.as<uint8_t>())).release();
    });
}
PyObject* unaligned(PyObject* self, PyObject* p) {
    return guarded([&] {
        const FactsView f = facts_for(self, p);
        return pairs_of(graph_of(self).unaligned(f.facts)).release();
    });
}
PyObject* levels(PyObject* self, PyObject* p) {
    return guarded([&]() -> PyObject* {
        const FactsView f = facts_for(self, p);
        std::vector<std::vector<int32_t>> found;
        {
            Released released;
            found = graph_of(self).levels(f.facts);
        }
        Ref lists = owned(PyList_New((Py_ssize_t)found.size()));
        for (size_t k = 0; k < found.size(); k++)
            PyList_SET_ITEM(lists.get(), (Py_ssize_t)k, list_of(found[k]).release());
        return lists.release();
    });
}
PyObject* place(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *p, *sequence;
        if (!PyArg_ParseTuple(args, "OO", &p, &sequence)) throw Failed();
        const FactsView f = facts_for(self, p);
        const std::vector<int32_t> widths = words_in(sequence);
        if (widths.size() != f.facts.components ||
            (!widths.empty() && *std::min_element(widths.begin(), widths.end()) < 1))
            fail(PyExc_ValueError, "widths of other components");
        std::vector<int32_t> trips;
        {
            Released released;
            trips = graph_of(self).place(f.facts, widths);
        }
        return list_of(trips).release();
    });
}
PyObject* write(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *p, *sequence, *array;
        if (!PyArg_ParseTuple(args, "OOO", &p, &sequence, &array)) throw Failed();
        const AddressesView a(p);
        const std::vector<int32_t> bases = words_in(sequence);
        if (bases.size() != a.addresses.ops) fail(PyExc_ValueError, "rows of another number of ops");
        for (const FlatGraph::Node& n : graph_of(self).nodes)
            if (n.op < 0 || (size_t)n.op >= bases.size()) fail(PyExc_ValueError, "a node of an unknown op");
        const View buffer(array, PyBUF_CONTIG);
        bool fits;
        {
            Released released;
            fits = graph_of(self).write(a.addresses, bases.data(), buffer.as<int32_t>(), buffer.words());
        }
        if (!fits) fail(PyExc_ValueError, "the index buffer is too small");
        return Py_NewRef(Py_None);
    });
}
const FlatGraph::Node& node_in(PyObject* self, PyObject* number) {
    const long n = integer(number);
    const auto& nodes = graph_of(self).nodes;
    if (n < 0 || (size_t)n >= nodes.size()) fail(PyExc_IndexError, "no such node");
    return nodes[n];
}
PyObject* row(PyObject* self, PyObject* number) {
    return guarded([&] { return PyLong_FromLong(node_in(self, number).row); });
}
PyObject* nodes_of(PyObject* self, PyObject* number) {
    return guarded([&]() -> PyObject* {
        const int32_t op = word(number);
        std::vector<int32_t> numbers, first, lanes;
        const auto& nodes = graph_of(self).nodes;
        for (size_t n = 0; n < nodes.size(); n++)
            if (nodes[n].op == op) {
                numbers.push_back((int32_t)n);
                first.push_back(nodes[n].position);
                lanes.push_back(nodes[n].lanes);
            }
        return Py_BuildValue("(NNN)", bytes_of(numbers).release(), bytes_of(first).release(),
                             bytes_of(lanes).release());
    });
}
PyObject* rows(PyObject* self, PyObject* number) {
    return guarded([&]() -> PyObject* {
        std::vector<int32_t> found((size_t)std::max(word(number), 0));
        for (const FlatGraph::Node& n : graph_of(self).nodes) {
            if (n.op < 0 || (size_t)n.op >= found.size()) fail(PyExc_ValueError, "a node of an unknown op");
            found[n.op] += n.lanes;
        }
        return list_of(found).release();
    });
}
PyObject* unused(PyObject* self, PyObject* root) {
    return guarded([&]() -> PyObject* {
        node_in(self, root);
        return list_of(graph_of(self).unused(word(root))).release();
    });
}
PyObject* clear(PyObject* self, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *sequence, *p, *array;
        if (!PyArg_ParseTuple(args, "OOO", &sequence, &p, &array)) throw Failed();
        const std::vector<int32_t> which = words_in(sequence);
        const AddressesView a(p);
        for (int32_t n : which)
            if (n < 0 || (size_t)n >= graph_of(self).nodes.size() ||
                (size_t)graph_of(self).nodes[n].op >= a.addresses.ops)
                fail(PyExc_IndexError, "no such node");
        const View buffer(array, PyBUF_CONTIG);
        if (!graph_of(self).clear(which, a.addresses, buffer.as<int32_t>(), buffer.words()))
            fail(PyExc_ValueError, "the index buffer is too small");
        return Py_NewRef(Py_None);
    });
}

PyMethodDef methods[] = {
    {"bind", bind, METH_O, "(ops): say which op of a program family each of its fused ops is."},
    {"edges", edges, METH_O,
     "(facts): pairs of a group of leaves and an op that feeds it, which are new; they are known then."},
    {"levels", levels, METH_O, "(facts): of each component, the lanes in each of its levels."},
    {"place", place, METH_VARARGS,
     "(facts, widths): give every node its lanes; the trips of each component."},
    {"unaligned", unaligned, METH_O,
     "(facts): pairs of an op and a leaf that is taken to be aligned and is not."},
    {"write", write, METH_VARARGS,
     "(addresses, bases, buffer): write which lanes are real, and what they read."},
    {"row", row, METH_O, "(node): its first row."},
    {"nodes", nodes_of, METH_O,
     "(op): its nodes, their first lanes, and their batch sizes, as bytes of int32."},
    {"rows", rows, METH_O, "(ops): how many rows each of so many ops has."},
    {"unused", unused, METH_O, "(root): the nodes that it is not made of."},
    {"clear", clear, METH_VARARGS, "(nodes, addresses, buffer): let their lanes be empty."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {
    {"count", count, nullptr, "Nodes, without those that were computed before.", nullptr},
    {"older", older, nullptr, "Numbers in the graph of nodes that were computed before and are read.",
     nullptr},
    {"fused", fused, nullptr, "Numbers of its fused ops, in order of first appearance.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, (void*)new_flat},
                       {Py_tp_dealloc, (void*)free_flat},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, attributes},
                       {Py_tp_doc, (void*)"A graph's stored nodes, placed on lanes and rows."},
                       {0, nullptr}};
PyType_Spec spec = {"dynetjax.engine.native.core.FlatGraph", sizeof(FlatObject), 0, Py_TPFLAGS_DEFAULT,
                    slots};

}  // namespace

void add_planner(PyObject* module) { add_type(module, "FlatGraph", spec); }
