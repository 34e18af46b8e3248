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
// Keyword arguments, of which each is asked for once.
class Named {
public:
    explicit Named(PyObject* named) : named_(named) {}
    PyObject* find(const char* name) {
        PyObject* found = named_ ? PyDict_GetItemString(named_, name) : nullptr;
        asked_ += found != nullptr;
        return found;
    }
    int32_t number(const char* name, int32_t otherwise) {
        PyObject* found = find(name);
        return found ? word(found) : otherwise;
    }
    template <class T>
    std::vector<T> array(const char* name) {
        PyObject* found = find(name);
        return found && found != Py_None ? copied<T>(found) : std::vector<T>();
    }
    // Once all are asked for.
    void end() const {
        if (named_ && asked_ != PyDict_Size(named_)) fail(PyExc_TypeError, "an argument that it has not");
    }

private:
    PyObject* named_;
    Py_ssize_t asked_ = 0;
};

PyObject* new_program(PyTypeObject* type, PyObject* args, PyObject* arguments) {
    return guarded([&]() -> PyObject* {
        if (PyTuple_GET_SIZE(args)) fail(PyExc_TypeError, "arguments have names");
        Named named(arguments);
        auto p = std::make_shared<Program>();
        const int32_t form = named.number("form", -1);
        if (form < 0 || form > (int)Form::JOIN) fail(PyExc_ValueError, "no such form");
        p->form = (Form)form;
        p->size = named.number("size", 0);
        p->weighted = named.number("weighted", 0);
        p->sizes = named.array<int32_t>("sizes");
        p->weights = named.array<int32_t>("weights");
        p->weight_sizes = named.array<int32_t>("weight_sizes");
        p->forward = named.array<Instruction>("forward");
        PyObject* backward = named.find("backward");
        p->differentiable = backward && backward != Py_None;
        if (p->differentiable) p->backward = copied<Instruction>(backward);
        p->extra = named.array<int32_t>("extra");
        p->constants = named.array<float>("constants");
        p->temporary = named.number("temporary", 0);
        p->saved = named.number("saved", 0);
        p->hoisted = named.number("hoisted", 0);
        p->table = named.number("table", -1);
        p->pieces = named.number("pieces", 0);
        p->outer = named.number("outer", 1);
        if (PyObject* types = named.find("types")) {
            const char* letters = PyUnicode_AsUTF8(types);
            if (!letters) throw Failed();
            p->data = letters;
        }
        const auto pairs = named.array<int32_t>("asides");
        for (size_t k = 0; k + 1 < pairs.size(); k += 2) p->asides.push_back({pairs[k], pairs[k + 1]});
        named.end();
        const bool joins = p->form == Form::JOIN;
        if (joins &&
            (p->pieces < 1 || p->outer < 1 || p->size % p->pieces || p->size / p->pieces % p->outer))
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
            Ref operands = owned(PyList_New(0));
            for (int i = 0; i < 4; i++) {
                if (!has_operand(q.op, i)) continue;
                const Operand& x = q.operand(i);
                const Ref told = owned(Py_BuildValue("iil", x.slot, x.start + x.inner, words_of(q, i)));
                push(operands.get(), told.get());
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
