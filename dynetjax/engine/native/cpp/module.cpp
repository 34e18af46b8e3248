// The module `core`: its types, and `OPCODES`.
#include "kernels.h"
#include "python.h"

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

PyObject* make_module() {
    Ref m = owned(PyModule_Create(&module));
    static const struct {
        const char *name, *meaning;
    } table[] = {
#define X(name, meaning) {#name, meaning},
        DYNETJAX_UNARY(X) DYNETJAX_BINARY(X) DYNETJAX_TERNARY(X) DYNETJAX_REDUCTION(X) DYNETJAX_SCAN(X)
            DYNETJAX_OTHER(X)
#undef X
    };
    Ref opcodes = owned(PyDict_New()), meanings = owned(PyDict_New()), counts = owned(PyDict_New());
    for (int k = 0; k < OPCODES; k++) {
        const auto tell = [&](const Ref& of, const Ref& what) {
            if (PyDict_SetItemString(of.get(), table[k].name, what.get())) throw Failed();
        };
        tell(opcodes, owned(PyLong_FromLong(k)));
        tell(counts, owned(PyLong_FromLong(operands(k))));
        tell(meanings, owned(PyUnicode_FromString(table[k].meaning)));
    }
    const auto add = [&](const char* name, const Ref& what) {
        if (PyModule_AddObjectRef(m.get(), name, what.get())) throw Failed();
    };
    add("OPCODES", opcodes), add("OPERANDS", counts), add("MEANINGS", meanings);
    if (PyModule_AddStringConstant(m.get(), "LEVEL", kernels().level)) throw Failed();
    add_programs(m.get());
    add_executor(m.get());
    add_updates(m.get());
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
