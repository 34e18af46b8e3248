// What the process knows, for Python: `Structures`.
#include "process.h"

#include "reads.h"

namespace {

PyTypeObject* structures_type;

PyObject* new_structures(PyTypeObject* type, PyObject* args, PyObject*) {
    return guarded([&]() -> PyObject* {
        PyObject *tell, *make;
        int first;
        if (!PyArg_ParseTuple(args, "OOi", &tell, &make, &first)) throw Failed();
        Ref self = owned(type->tp_alloc(type, 0));
        Process* p = ((StructuresObject*)self.get())->process = new Process;
        p->tell = Ref(Py_NewRef(tell));
        p->make = Ref(Py_NewRef(make));
        p->first = first;
        return self.release();
    });
}
void free_structures(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete ((StructuresObject*)self)->process;
    type->tp_free(self);
    Py_DECREF(type);
}
Py_ssize_t count_structures(PyObject* self) {
    return (Py_ssize_t)((StructuresObject*)self)->process->structures.known.size();
}

Signature told(Process& p, PyObject* answer) {
    int form, flags, kind, broadcast, ragged;
    PyObject *weights, *shape;
    const char* letters;
    if (!PyArg_ParseTuple(answer, "iiiiOsOi", &form, &flags, &kind, &broadcast, &weights, &letters, &shape,
                          &ragged))
        throw Failed();
    if (form < 0 || form > (int)Form::JOIN) fail(PyExc_ValueError, "no such form");
    Signature s;
    s.form = (Form)form;
    s.kind = kind;
    s.broadcast = broadcast;
    s.letters = letters;
    s.ragged = ragged;
    s.contraction = flags & 1;
    s.tells = flags & 2;
    s.adds = flags & 4;
    s.sums = flags & 8;
    s.listed = flags & 16;
    s.is_weight = flags & 32;
    s.zeros = flags & 64;
    s.weights = words_in(weights);
    p.sizes.emplace(kind, words_in(shape));
    return s;
}
}  // namespace

int32_t signature_of(Process& p, PyObject* signature) {
    auto& latest = p.latest[(uintptr_t)signature / 64 % p.latest.size()];
    if (latest.first == signature) return latest.second;
    const auto known = p.numbers.find(signature);
    int32_t number;
    if (known != p.numbers.end()) {
        number = known->second;
    } else {
        const Ref kept(Py_NewRef(signature));
        const Ref answer = owned(PyObject_CallOneArg(p.tell.get(), signature));
        Signature s = told(p, answer.get());
        number = narrow((int64_t)p.structures.signatures.size());
        p.signatures.push_back(Ref(Py_NewRef(signature)));
        p.structures.signatures.push_back(std::move(s));
        p.numbers[signature] = number;
    }
    latest = {signature, number};
    return number;
}

namespace {

// The steps of a structure, operands first: (signature, what each operand is, its own structure),
// where an operand is the number of a step, or -1 for a weight; -2, -4, ... for rows, which are
// counted in the order in which a node reads them, and one less for rows instead of a weight.
int32_t append_steps(Process& p, PyObject* steps, int32_t structure, int32_t& leaves) {
    const Structure x = p.structures.known[(size_t)structure];
    Ref operands = owned(PyTuple_New((Py_ssize_t)x.operands.size()));
    for (size_t k = 0; k < x.operands.size(); k++) {
        const Source::Role is = x.operands[k].role;
        int32_t role = -1;
        if (is == Source::PART)
            role = append_steps(p, steps, x.operands[k].number, leaves);
        else if (is != Source::WEIGHT)
            role = -2 - 2 * leaves++ - (is == Source::INSTEAD);
        PyTuple_SET_ITEM(operands.get(), (Py_ssize_t)k, owned(PyLong_FromLong(role)).release());
    }
    const Ref step = owned(Py_BuildValue("(OOi)", p.signatures[(size_t)x.signature].get(), operands.get(),
                                         p.first + structure));
    push(steps, step.get());
    return (int32_t)PyList_GET_SIZE(steps) - 1;
}
}  // namespace

int32_t fused_op_of(Process& p, int32_t structure) {
    if (p.structures.known[(size_t)structure].fused < 0) {
        const Structure x = p.structures.known[(size_t)structure];  // Python may add others
        const Ref kind = owned(PyLong_FromLong(x.kind)), steps = owned(PyList_New(0));
        int32_t leaves = 0;
        if (x.signature >= 0) append_steps(p, steps.get(), structure, leaves);
        Ref made = owned(PyObject_CallFunctionObjArgs(p.make.get(), kind.get(), steps.get(), nullptr));
        const int32_t number = word(attribute(made.get(), "id").get());
        p.fused.push_back(std::move(made));
        p.structures.known[(size_t)structure].fused = number;
    }
    return p.structures.known[(size_t)structure].fused;
}

namespace {

// (structure): give its nodes rows from now on; whether they had none.
PyObject* store_structure(PyObject* self, PyObject* number) {
    return guarded([&]() -> PyObject* {
        Process& p = *((StructuresObject*)self)->process;
        Structures& s = p.structures;
        const long n = integer(number) - p.first;
        if (n < 0 || n >= (long)s.known.size()) Py_RETURN_FALSE;  // which is of another table
        const bool had_none = !s.known[(size_t)n].stored;
        s.store((int32_t)n);
        return PyBool_FromLong(had_none);
    });
}
// [(structure, whole)] that became outdated since the last call.
PyObject* take_outdated(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Process& p = *((StructuresObject*)self)->process;
        Structures& s = p.structures;
        Ref found = owned(PyList_New(0));
        for (const auto& x : s.outdated) {
            const Ref entry =
                owned(Py_BuildValue("(iO)", p.first + x.structure, x.whole ? Py_True : Py_False));
            push(found.get(), entry.get());
        }
        s.outdated.clear();
        return found.release();
    });
}

PyMethodDef structures_methods[] = {
    {"store", store_structure, METH_O,
     "Give the nodes of a structure rows from now on; whether they had none."},
    {"take_outdated", take_outdated, METH_NOARGS,
     "(structure, whole) of those that became outdated since the last call: no node has them in it any "
     "more; where they are whole, none has them at all."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot structures_slots[] = {{Py_tp_methods, structures_methods},
                                  {Py_tp_new, (void*)new_structures},
                                  {Py_tp_dealloc, (void*)free_structures},
                                  {Py_sq_length, (void*)count_structures},
                                  {Py_tp_doc, (void*)"(tell, make, first): what nodes of the process have "
                                                     "in common. `tell(signature)` describes one, "
                                                     "`make(kind, steps)` gives a fused op."},
                                  {0, nullptr}};
PyType_Spec structures_spec = {"dynetjax.engine.native.core.Structures", sizeof(StructuresObject), 0,
                               Py_TPFLAGS_DEFAULT, structures_slots};

}  // namespace

PyObject* structures_in(PyObject* p) {
    if (!PyObject_TypeCheck(p, structures_type)) fail(PyExc_TypeError, "no Structures");
    return p;
}

void add_structures(PyObject* module) { structures_type = add_type(module, "Structures", structures_spec); }
