// `Program` for Python: a fused op as byte code.
#include "program.h"
#include "python.h"

namespace {

struct ProgramObject {
    PyObject_HEAD std::shared_ptr<const Program>* program;
};
PyTypeObject* program_type;

PyObject* programmed(PyTypeObject* type, std::shared_ptr<Program> p) {
    const std::string wrong = p->check();
    if (!wrong.empty()) fail(PyExc_ValueError, wrong.c_str());
    p->prepare();
    Ref self = owned(type->tp_alloc(type, 0));
    ((ProgramObject*)self.get())->program = new std::shared_ptr<const Program>(std::move(p));
    return self.release();
}
PyObject* new_program(PyTypeObject* type, PyObject* args, PyObject* named) {
    return guarded([&]() -> PyObject* {
        int form, size, weighted = 0, temporary = 0, saved = 0, hoisted = 0, table = -1, pieces = 0,
                        outer = 1;
        const char* types = "";
        PyObject *sizes = nullptr, *weights = nullptr, *weight_sizes = nullptr, *forward = nullptr,
                 *backward = Py_None, *extra = nullptr, *constants = nullptr, *asides = nullptr;
        const char* keywords[] = {"form",      "size",         "weighted", "sizes",    "types",
                                  "weights",   "weight_sizes", "forward",  "backward", "extra",
                                  "constants", "temporary",    "saved",    "hoisted",  "asides",
                                  "table",     "pieces",       "outer",    nullptr};
        if (!PyArg_ParseTupleAndKeywords(args, named, "ii|$pOsOOOOOOiiiOiii", const_cast<char**>(keywords),
                                         &form, &size, &weighted, &sizes, &types, &weights, &weight_sizes,
                                         &forward, &backward, &extra, &constants, &temporary, &saved,
                                         &hoisted, &asides, &table, &pieces, &outer))
            throw Failed();
        auto p = std::make_shared<Program>();
        if (form < 0 || form > (int)Form::JOIN) fail(PyExc_ValueError, "no such form");
        p->form = (Form)form, p->size = size, p->weighted = weighted;
        p->sizes = given<int32_t>(sizes), p->data = types;
        p->weights = given<int32_t>(weights), p->weight_sizes = given<int32_t>(weight_sizes);
        p->forward = given<Instruction>(forward);
        p->differentiable = backward != Py_None;
        if (p->differentiable) p->backward = given<Instruction>(backward);
        p->extra = given<int32_t>(extra), p->constants = given<float>(constants);
        p->temporary = temporary, p->saved = saved, p->hoisted = hoisted, p->table = table,
        p->pieces = pieces, p->outer = outer;
        const auto pairs = given<int32_t>(asides);
        for (size_t k = 0; k + 1 < pairs.size(); k += 2) p->asides.push_back({pairs[k], pairs[k + 1]});
        if (p->form == Form::JOIN && (pieces < 1 || outer < 1 || size % pieces || size / pieces % outer))
            fail(PyExc_ValueError, "pieces that are no part of a row");
        return programmed(type, std::move(p));
    });
}
// (weights): the same code for other weights.
PyObject* bound(PyObject* self, PyObject* weights) {
    return guarded([&]() -> PyObject* {
        auto p = std::make_shared<Program>(**((ProgramObject*)self)->program);
        const auto kinds = copied<int32_t>(weights);
        if (kinds.size() != p->weights.size()) fail(PyExc_ValueError, "bound to another number of things");
        p->weights = kinds;
        return programmed(Py_TYPE(self), std::move(p));
    });
}
// (back): of each instruction its opcode, flags, n, m, k, where its extra begins, and of each operand that
// it has the slot, where it begins there, and how many words it has; -1: extra tells.
PyObject* instructions(PyObject* self, PyObject* back) {
    return guarded([&]() -> PyObject* {
        const Program& p = **((ProgramObject*)self)->program;
        Ref found = owned(PyList_New(0));
        for (const Instruction& q : back == Py_True ? p.backward : p.forward) {
            const Operand* all[] = {&q.d, &q.a, &q.b, &q.c};
            Ref operands = owned(PyList_New(0));
            for (int i = 0; i < 4; i++) {
                if (!has_operand(q.op, i)) continue;
                const OperandRule& of = RULES[q.op].operands[i];
                const Operand& x = *all[i];
                const bool one = of.extent == Extent::ANY_OR_ONE && x.one;
                const long words = of.extent == Extent::BY_EXTRA ? -1
                                   : one                         ? 1
                                                                 : (long)of.words(q.n, q.m, q.k);
                push(operands.get(), owned(Py_BuildValue("iil", x.slot, x.start + x.inner, words)).get());
            }
            push(found.get(),
                 owned(Py_BuildValue("iiiiiiO", q.op, q.flags, q.n, q.m, q.k, q.extra, operands.get()))
                     .get());
        }
        return found.release();
    });
}
PyObject* get_extra(PyObject* self, void*) {
    return guarded([&] { return list_of((**((ProgramObject*)self)->program).extra).release(); });
}
PyObject* get_constants(PyObject* self, void*) {
    return guarded([&] { return bytes_of((**((ProgramObject*)self)->program).constants).release(); });
}
void free_program(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete ((ProgramObject*)self)->program;
    type->tp_free(self);
    Py_DECREF(type);
}

PyGetSetDef program_attributes[] = {{"extra", get_extra, nullptr, nullptr, nullptr},
                                    {"constants", get_constants, nullptr, nullptr, nullptr},
                                    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef program_methods[] = {{"bound", bound, METH_O, "(weights): the same for other weights."},
                                 {"instructions", instructions, METH_O, "(back): what it runs."},
                                 {nullptr, nullptr, 0, nullptr}};
PyType_Slot program_slots[] = {{Py_tp_new, (void*)new_program},
                               {Py_tp_dealloc, (void*)free_program},
                               {Py_tp_methods, program_methods},
                               {Py_tp_getset, program_attributes},
                               {Py_tp_doc, (void*)"A fused op as byte code."},
                               {0, nullptr}};
PyType_Spec program_spec = {"dynetjax.engine.native.core.Program", sizeof(ProgramObject), 0,
                            Py_TPFLAGS_DEFAULT, program_slots};

}  // namespace

const std::shared_ptr<const Program>& program_in(PyObject* p) {
    if (!PyObject_TypeCheck(p, program_type)) fail(PyExc_TypeError, "no Program");
    return *((ProgramObject*)p)->program;
}

void add_programs(PyObject* module) { program_type = add_type(module, "Program", program_spec); }
