"""Names of other libraries, and what errors tell of them."""

import re
import subprocess
import sys

import jax
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.compat.hints import FOR_THE_ENGINE
from dynetjax.core import other_names
from dynetjax.core.other_names import COLLECTION, EXPRESSION, KEYWORD, MODULE, TRAINER

ROWS = {
    of: [row for row in other_names.TABLE if row.of == of]
    for of in (MODULE, EXPRESSION, TRAINER, COLLECTION, KEYWORD)
}
NO_CODE = {"nothing", "one graph for each sentence", "y = f(g(x))"}


def made():
    dy.renew_cg()
    m = dy.ParameterCollection()
    return {
        COLLECTION: m,
        TRAINER: dy.SimpleSGDTrainer(m),
        EXPRESSION: dy.inputVector([1, 2, 3]),
        MODULE: dy,
    }


@pytest.mark.parametrize("of", [MODULE, EXPRESSION, TRAINER, COLLECTION])
def test_each_name_raises_and_is_not_here(of):
    owner = made()[of]
    assert ROWS[of]
    for row in ROWS[of]:
        with pytest.raises(AttributeError, match=re.escape(row.told)) as caught:
            getattr(owner, row.name)
        assert caught.value.obj is None  # so Python looks for no name that is near
        assert row.name not in dir(owner)
        assert not hasattr(owner, row.name)


LISTED = {  # what DyNet lists, and what it does not
    "expression": "backward dim forward gradient npvalue scalar_value set tensor_value "
    "value vec_value, T set_index shape",
    "parameter": "as_array backward clip_inplace dim expr forward grad_as_array "
    "gradient is_updated name npvalue populate populate_from_textfile save "
    "scalar_value scale scale_gradient set_updated set_value shape tensor_value value "
    "vec_value write_to_textfile zero, T set set_index",
    "trainer": "learning_rate restart set_clip_threshold set_learning_rate "
    "set_sparse_updates status update update_epoch update_subset, check "
    "cumulative_moving_average exponential_moving_average get_clip_threshold "
    "load_state_dict populate save sparse_updates_enabled state_dict "
    "swap_params_to_moving_average swap_params_to_weights whoami",
    "state": "add_input add_inputs b h output prev s set_h set_s transduce, "
    "add_auxiliary_input",
}


@pytest.mark.parametrize("what", LISTED)
def test_dir_lists_what_users_call(what):
    here = made()
    m = here[COLLECTION]
    things = {
        "expression": here[EXPRESSION],
        "parameter": m.add_parameters(3),
        "trainer": here[TRAINER],
        "state": dy.GRUBuilder(1, 2, 3, m).initial_state(),
    }
    listed = {name for name in dir(things[what]) if name[0] != "_"}
    assert listed == {*LISTED[what].replace(",", "").split()}


def test_what_is_for_the_engine_is_there_and_not_listed():
    here = made()
    x, m = here[EXPRESSION], here[COLLECTION]
    trees = dy.NaryTreeLSTMBuilder(2, 1, 3, 3, m)
    rnn = dy.VanillaLSTMBuilder(1, 3, 3, m)
    p = m.add_parameters(3)
    things = [
        *[x, p, p.expr(False), m.add_lookup_parameters((3, 3)), m, here[TRAINER]],
        *[trees, trees.add_input(x), rnn, rnn.initial_state(), dy.GlorotInitializer()],
        dy.StandardSoftmaxBuilder(3, 3, m),
    ]
    for kind, names in FOR_THE_ENGINE.items():
        thing = next(thing for thing in things if isinstance(thing, kind))
        for name in names.split():
            assert name in object.__dir__(thing), (kind, name)
            assert name not in dir(thing)
    for thing in things:
        assert len(dir(thing)) == len({*dir(thing)})


def test_tab_in_ipython():
    """With Jedi and without, which lists the class, too."""
    pytest.importorskip("IPython")
    program = """
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.completer import provisionalcompleter
import dynetjax as dy
shell = InteractiveShell.instance()
shell.user_ns["x"] = dy.inputVector([1])
for shell.Completer.use_jedi in (True, False):
    with provisionalcompleter():
        found = {c.text.strip(".") for c in shell.Completer.completions("x.", 2)}
        print(*sorted(found))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    expected = sorted(LISTED["expression"].replace(",", "").split())
    assert [line.split() for line in done.stdout.splitlines()] == [expected] * 2


def test_other_names_are_guessed_by_python():
    for name, guess in {
        "tanhh": "Did you mean: 'tanh'",
        "relu": "dy.rectify(x)",
    }.items():
        command = [sys.executable, "-c", f"import dynetjax as dy; dy.{name}"]
        told = subprocess.run(command, capture_output=True, text=True).stderr
        assert guess in told
        assert "elu'?" not in told


def test_names_of_parameters_stay():
    """What DyNet calls so is not hidden."""
    m = dy.ParameterCollection()
    W, E = m.add_parameters((2, 3)), m.add_lookup_parameters((4, 5))
    assert W.shape() == (2, 3)
    assert E.shape() == (4, 5)
    with pytest.raises(AttributeError, match=r"p.grad_as_array\(\)"):
        W.grad  # noqa: B018


def test_a_class_of_the_user_may_have_them():
    class Model(dy.ParameterCollection):
        def __init__(self):
            super().__init__()
            self.cuda = 1

        def parameters(self):
            return 2

    assert (Model().cuda, Model().parameters()) == (1, 2)


def spaces():
    """What code of the table may mean by its letters: vectors or matrices."""
    dy.renew_cg()
    m = dy.ParameterCollection()
    common = {
        "dy": dy,
        "np": np,
        "jax": jax,
        "m": m,
        "v": 1,
        "i": 1,
        "d": 0,
        "dim": 3,
        "n": 6,
        "layers": 1,
        "hidden": 4,
        "out": 2,
        "seed": 1,
        "name": "CPU",
        "array": np.ones(3),
        "file": "model",
        "stride": [1, 1],
        "ksize": [1, 1],
        "trainer": dy.SimpleSGDTrainer(m),
        "ids": [0, 1],
        "f": dy.inputTensor(np.ones((2, 2, 1, 3))),
        "g": dy.inputVector([1] * 6),
        "b": dy.inputVector([1] * 6),
    }
    for shape, p in ((6,), 0.5), ((6, 6), m.add_parameters(6)), ((4, 4, 1), 0.5):
        x = dy.inputTensor(np.full(shape, 0.25))
        loss = dy.squared_norm(x)
        W = dy.inputTensor(np.ones((6, 6)))
        loss.backward(full=True)
        some = {"x": x, "y": x + 0, "xs": [x, x], "loss": loss, "W": W, "p": p}
        yield common | some


@pytest.mark.parametrize("of", [MODULE, EXPRESSION, TRAINER, COLLECTION])
def test_what_is_told_runs(of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for row in ROWS[of]:
        if row.here in NO_CODE:
            continue
        code = row.here.replace(" in, ", " 5, ").replace("(out, in)", "(out, 5)")
        code = code if row.name != "load_state_dict" else f"m.save(file); {code}"
        failures = []
        for space in spaces():
            try:
                exec(code, space)
                break
            except Exception as error:
                failures.append(error)
        else:
            pytest.fail(f"{row}: {failures}")


@pytest.mark.parametrize("row", other_names.TABLE, ids=lambda row: row.of + row.name)
def test_names_in_advice_exist(row):
    for name in re.findall(r"\bdy\.(\w+)", row.told):
        assert hasattr(dy, name), row
    for name in re.findall(r"\bx\.(\w+)\(", row.told):
        assert hasattr(dy.Expression, name), row


X = np.array([-1.0, 0.5, 2.0])
MEANINGS = {
    "relu": np.maximum(X, 0),
    "leaky_relu": np.where(X > 0, X, 0.01 * X),
    "sigmoid": 1 / (1 + np.exp(-X)),
    "logsigmoid": -np.log1p(np.exp(-X)),
    "softplus": np.log1p(np.exp(X)),
    "gelu": np.asarray(jax.nn.gelu(X)),
    "cross_entropy": np.log(np.exp(X).sum()) - X[1],
    "mse_loss": ((X - 1) ** 2).sum(),
    "l1_loss": abs(X - 1).sum(),
    "mul": X,
    "div": X,
    "sum": X.sum(),
    "mean": X.mean(),
    "std": X.std(),
    "norm": np.sqrt((X**2).sum()),
    "cat": np.concatenate([X, X]),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_meaning(name):
    """What is told computes what it computes elsewhere."""
    dy.renew_cg()
    x, y = dy.inputVector(X), dy.inputVector([1, 1, 1])
    code = other_names.other_name(MODULE, name).here
    space = {"dy": dy, "jax": jax, "x": x, "y": y, "v": 1, "xs": [x, x]}
    got = eval(code, space).value()
    np.testing.assert_allclose(got, MEANINGS[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "here"),
    [
        (lambda m: dy.AdamTrainer(m, lr=0.1), "alpha"),
        (lambda m: dy.AdamTrainer(m, learning_rate=0.1), "alpha"),
        (lambda m: dy.AdamTrainer(m, betas=(0.9, 0.99)), "beta_1"),
        (lambda m: dy.SimpleSGDTrainer(m, lr=0.1), "learning_rate"),
        (lambda m: dy.SimpleSGDTrainer(params=m), "m"),
        (lambda m: dy.MomentumSGDTrainer(m, momentum=0.1), "mom"),
        (lambda m: dy.VanillaLSTMBuilder(num_layers=1, model=m), "layers"),
        (lambda m: dy.GRUBuilder(1, input_size=2, hidden_dim=3, model=m), "input_dim"),
        (lambda m: dy.BiRNNBuilder(1, 2, hidden_size=3, model=m), "hidden_dim"),
        (lambda m: dy.softmax(m.add_parameters((2, 3)), dim=1), "d"),
        (lambda m: dy.concatenate([m.add_parameters(2)], axis=0), "d"),
    ],
)
def test_keywords(call, here):
    dy.renew_cg()
    with pytest.raises(TypeError, match=rf"unexpected keyword(.|\n)*fix: +{here}="):
        call(dy.ParameterCollection())


def test_other_keywords_are_told_by_python():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'nothing'$"):
        dy.AdamTrainer(dy.ParameterCollection(), nothing=1)


def test_a_trainer_of_the_user_may_have_them():
    class Mine(dy.SimpleSGDTrainer):
        def __init__(self, m, lr):
            super().__init__(m, learning_rate=lr)

    class More(dy.SimpleSGDTrainer):
        def __init__(self, m, **options):
            super().__init__(m, learning_rate=options["lr"])

    for kind in Mine, More:
        assert kind(dy.ParameterCollection(), lr=0.5).learning_rate == 0.5


class TestWhatWorks:
    def test_shape(self):
        dy.renew_cg()
        x = dy.inputTensor(np.ones((2, 3, 4)), batched=True)
        assert x.shape == (2, 3)
        assert x.T.npvalue().shape == (3, 2, 4)

    def test_transposed(self):
        dy.renew_cg()
        A = np.arange(6.0).reshape(2, 3)
        assert (dy.inputTensor(A).T.npvalue() == A.T).all()
        W = dy.ParameterCollection().parameters_from_numpy(A)
        assert (W.T.npvalue() == A.T).all()
        with pytest.raises(dy.DimError, match=r"x\.T: x is not a matrix"):
            dy.inputVector([1]).T  # noqa: B018

    def test_collections(self):
        m = dy.ParameterCollection()
        assert len(m) == 0
        assert m
        E, W = m.add_lookup_parameters((2, 3)), m.add_parameters(3)
        b = m.add_subcollection("sub").add_parameters(3)
        assert len(m) == 3
        assert list(m) == [W, b, E]


def test_under_the_name_of_dynet():
    code = (
        "import dynetjax.dropin, dynet as dy\n"
        "for module in dy, __import__('_dynet'):\n"
        "    try: module.relu\n"
        "    except AttributeError as error: print(error)\n"
        "    assert not hasattr(module, 'nothing')\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("fix:      dy.rectify(x)") == 2
