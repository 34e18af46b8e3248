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
    p->count();
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
void free_program(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete ((ProgramObject*)self)->program;
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef program_methods[] = {{"bound", bound, METH_O, "(weights): the same for other weights."},
                                 {nullptr, nullptr, 0, nullptr}};
PyType_Slot program_slots[] = {{Py_tp_new, (void*)new_program},
                               {Py_tp_dealloc, (void*)free_program},
                               {Py_tp_methods, program_methods},
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
