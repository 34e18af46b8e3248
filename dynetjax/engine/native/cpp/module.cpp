// The module `core`: its types, and what byte code is made of.
#include <initializer_list>

#include "blocks.h"
#include "kernels.h"
#include "program.h"
#include "python.h"
#include "rule.h"

namespace {

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "core",
                      "Tier 0: byte code, run at once.",
                      -1,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

Ref text(const char* of) { return owned(PyUnicode_FromString(of)); }
template <class... Parts>
Ref tuple_of(const Parts&... parts) {
    return owned(PyTuple_Pack(sizeof...(parts), parts.get()...));
}
// How many words an operand has, in words.
Ref extent_of(const OperandRule& x) {
    return text(x.extent == Extent::NO           ? ""
                : x.extent == Extent::ALL        ? x.text
                : x.extent == Extent::ANY_OR_ONE ? "n or 1"
                                                 : "by extra");
}
// Of each opcode its name, its family, the flags that it may have, how many words it has of d, a, b and
// c, and what it does.
Ref rules() {
    const char* families[] = {"unary", "binary", "ternary", "reduction", "scan", "other", "control"};
    Ref found = owned(PyList_New(0));
    for (const OpcodeRule& x : RULES) {
        const auto& of = x.operands;
        const Ref operands =
            tuple_of(extent_of(of[0]), extent_of(of[1]), extent_of(of[2]), extent_of(of[3]));
        const Ref flags = owned(PyLong_FromLong(x.flags));
        push(found.get(),
             tuple_of(text(x.name), text(families[(int)x.family]), flags, operands, text(x.meaning)).get());
    }
    return found;
}

// What Python and C++ both have names for.
void add_names(PyObject* m) {
    const auto add = [&](const char* name, const Ref& what) {
        if (PyModule_AddObjectRef(m, name, what.get())) throw Failed();
    };
    const auto add_number = [&](const char* name, long number) {
        if (PyModule_AddIntConstant(m, name, number)) throw Failed();
    };
    add("RULES", rules());
    const Ref flags = owned(PyDict_New()), slots = owned(PyDict_New());
    const auto tell = [](const Ref& of, const char* name, const char* meaning) {
        if (PyDict_SetItemString(of.get(), name, text(meaning).get())) throw Failed();
    };
#define X(name, bit, meaning) add_number(#name, name), tell(flags, #name, meaning);
    DYNETJAX_FLAGS(X)
#undef X
#define X(name, meaning) add_number(#name, name), tell(slots, #name, meaning);
    DYNETJAX_SLOTS(X)
#undef X
    add("FLAGS", flags), add("SLOTS", slots);
    add_number("DYNAMIC", DYNAMIC);
    add_number("WORDS", INSTRUCTION_WORDS);
    add_number("HOISTABLE", HOISTABLE);
    add_number("MOST_STATES", MOST_STATES);
    const auto add_numbers = [&](const char* name, std::initializer_list<const char*> names) {
        const Ref found = owned(PyDict_New());
        for (const char* x : names) {
            const Ref number = owned(PyLong_FromSsize_t(PyDict_Size(found.get())));
            if (PyDict_SetItemString(found.get(), x, number.get())) throw Failed();
        }
        add(name, found);
    };
    add("TERMS", list_of(std::vector<int32_t>(std::begin(COUNTS), std::end(COUNTS))));
#define X(name) #name,
    add_numbers("FORMS", {DYNETJAX_FORMS(X)});
    add_numbers("SCATTERS", {DYNETJAX_SCATTERS(X)});
#undef X
    if (PyModule_AddStringConstant(m, "LEVEL", kernels().level)) throw Failed();
}

PyObject* make_module() {
    Ref m = owned(PyModule_Create(&module));
    add_names(m.get());
    add_programs(m.get());
    add_executor(m.get());
    add_updates(m.get());
    add_exchange(m.get());
    add_planner(m.get());
    add_stored(m.get());
    add_structures(m.get());
    add_storages(m.get());
    add_expressions(m.get());
    add_nodes(m.get());
    add_functions(m.get());
    return m.release();
}

}  // namespace

PyMODINIT_FUNC PyInit_core() {
    return guarded([] { return make_module(); });
}
