"""What is called otherwise in PyTorch, JAX, NumPy and Keras: one table.

Errors for names and keywords that are not here, ``python -m dynetjax check`` and the
page docs/from_pytorch.md read it.
"""

import inspect
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, NoReturn, Self

from dynetjax.core.errors import error_text

MODULE, EXPRESSION, TRAINER = "dy", "Expression", "Trainer"
COLLECTION, KEYWORD = "ParameterCollection", "keyword"


class OtherName(NamedTuple):
    """A name that other libraries have for something.

    Attributes:
        of: what people look for it on.
        name: the name.
        here: what does it here, as code.
        advice: what else to know, in one line; may be empty.
    """

    of: str
    name: str
    here: str
    advice: str = ""

    @property
    def told(self) -> str:
        """`here` and `advice`."""
        return f"{self.here} ({self.advice})" if self.advice else self.here


BUILDERS_NEED = "a builder has its parameters in the collection that it is given"
NO_MODES = "there are no modes: leave dropout out where you do not train"
ROWS = "a layer is its parameters and an expression: no classes"

TABLE: Final = tuple(
    OtherName(*row)
    for row in (
        (MODULE, "relu", "dy.rectify(x)"),
        (MODULE, "leaky_relu", "dy.bmax(x, 0.01 * x)"),
        (MODULE, "sigmoid", "dy.logistic(x)"),
        (MODULE, "logsigmoid", "dy.log_sigmoid(x)"),
        (MODULE, "softplus", "-dy.log_sigmoid(-x)"),
        (MODULE, "gelu", "dy.jax_op(jax.nn.gelu)(x)"),
        (MODULE, "cross_entropy", "dy.pickneglogsoftmax(x, v)", "x are scores"),
        (MODULE, "CrossEntropyLoss", "dy.pickneglogsoftmax(x, v)", "x are scores"),
        (MODULE, "nll_loss", "-dy.pick(x, v)", "x = dy.log_softmax(scores)"),
        (MODULE, "NLLLoss", "-dy.pick(x, v)", "x = dy.log_softmax(scores)"),
        (MODULE, "mse_loss", "dy.squared_distance(x, y)", "a sum; divide by the size"),
        (MODULE, "MSELoss", "dy.squared_distance(x, y)", "a sum; divide by the size"),
        (MODULE, "l1_loss", "dy.l1_distance(x, y)", "a sum; divide by the size"),
        (MODULE, "L1Loss", "dy.l1_distance(x, y)", "a sum; divide by the size"),
        (MODULE, "BCELoss", "dy.binary_log_loss(x, y)", "x are probabilities"),
        (MODULE, "binary_cross_entropy", "dy.binary_log_loss(x, y)", "a sum"),
        (MODULE, "matmul", "x * y", "or x @ y"),
        (MODULE, "mm", "x * y", "or x @ y"),
        (MODULE, "inner", "dy.dot_product(x, y)", "dy.dot draws graphs"),
        (MODULE, "mul", "dy.cmult(x, y)", "element-wise; * is the matrix product"),
        (MODULE, "multiply", "dy.cmult(x, y)", "element-wise; * is the matrix product"),
        (MODULE, "div", "dy.cdiv(x, y)", "element-wise"),
        (MODULE, "divide", "dy.cdiv(x, y)", "element-wise"),
        (MODULE, "add", "x + y"),
        (MODULE, "subtract", "x - y"),
        (MODULE, "cat", "dy.concatenate(xs, d=0)", "d=1: concatenate_cols"),
        (MODULE, "stack", "dy.concatenate_cols(xs)", "vectors become columns"),
        (MODULE, "hstack", "dy.concatenate_cols(xs)"),
        (MODULE, "vstack", "dy.concatenate(xs)"),
        (MODULE, "sum", "dy.sum_elems(x)", "of a list: dy.esum; by axes: dy.sum_dim"),
        (MODULE, "mean", "dy.mean_elems(x)", "of a list: dy.average; or dy.mean_dim"),
        (MODULE, "std", "dy.std_elems(x)", "by axes: dy.std_dim"),
        (
            MODULE,
            "max",
            "dy.max_dim(x, d)",
            "of two: dy.bmax(x, y); of lists: dy.emax",
        ),
        (MODULE, "min", "dy.min_dim(x, d)", "of two: dy.bmin(x, y)"),
        (MODULE, "norm", "dy.l2_norm(x)"),
        (MODULE, "gather", "dy.pick(x, i)", "several: dy.select_rows(x, ids)"),
        (MODULE, "index_select", "dy.select_rows(x, ids)", "dy.select_cols(x, ids)"),
        (MODULE, "layernorm", "dy.layer_norm(x, g, b)"),
        (MODULE, "LayerNorm", "dy.layer_norm(x, g, b)", "g and b are your parameters"),
        (MODULE, "BatchNorm", "dy.layer_norm(x, g, b)", "batch norm is not here"),
        (MODULE, "Dropout", "dy.dropout(x, p)", NO_MODES),
        (MODULE, "Linear", "W * x + b", "W = m.add_parameters((out, in)); b likewise"),
        (MODULE, "Embedding", "m.add_lookup_parameters((n, dim))", "E[i] is row i"),
        (MODULE, "LSTM", "dy.VanillaLSTMBuilder(layers, in, hidden, m)", BUILDERS_NEED),
        (MODULE, "GRU", "dy.GRUBuilder(layers, in, hidden, m)", BUILDERS_NEED),
        (MODULE, "RNN", "dy.SimpleRNNBuilder(layers, in, hidden, m)", BUILDERS_NEED),
        (MODULE, "Conv2d", "dy.conv2d(x, f, stride)", "f is a parameter of yours"),
        (MODULE, "MaxPool2d", "dy.maxpooling2d(x, ksize, stride)"),
        (MODULE, "nn", "dy.ParameterCollection()", ROWS),
        (MODULE, "Module", "dy.ParameterCollection()", ROWS),
        (MODULE, "Sequential", "y = f(g(x))", ROWS),
        (MODULE, "functional", "dy", "operations are functions of the module"),
        (MODULE, "optim", "dy.AdamTrainer(m)", "an optimiser is a trainer"),
        (MODULE, "Adam", "dy.AdamTrainer(m, alpha=0.001)"),
        (MODULE, "SGD", "dy.SimpleSGDTrainer(m, learning_rate=0.1)"),
        (MODULE, "RMSprop", "dy.RMSPropTrainer(m)"),
        (MODULE, "Adagrad", "dy.AdagradTrainer(m)"),
        (MODULE, "no_grad", "dy.nobackprop(x)", "nothing is differentiated unasked"),
        (MODULE, "stop_gradient", "dy.nobackprop(x)"),
        (MODULE, "manual_seed", "dy.reset_random_seed(seed)"),
        (MODULE, "tensor", "dy.inputTensor(array)"),
        (MODULE, "from_numpy", "dy.inputTensor(array)"),
        (MODULE, "array", "dy.inputTensor(array)"),
        (MODULE, "Parameter", "m.add_parameters(dim)", "m is a ParameterCollection"),
        (MODULE, "view", "dy.reshape(x, (2, 3))", "first index fastest, as in Fortran"),
        (MODULE, "unsqueeze", "dy.reshape(x, (1, n))"),
        (MODULE, "squeeze", "dy.reshape(x, (n,))"),
        (MODULE, "permute", "dy.transpose(x, [1, 0])"),
        (MODULE, "pad_sequence", "one graph for each sentence", "no padding is needed"),
        (MODULE, "jit", "nothing", "there is nothing to compile"),
        (MODULE, "compile", "nothing", "there is nothing to compile"),
        (MODULE, "grad", "loss.backward()", "or jax.grad(dy.to_jax(loss))"),
        (EXPRESSION, "item", "x.value()"),
        (EXPRESSION, "tolist", "x.value()"),
        (EXPRESSION, "numpy", "x.npvalue()", "or np.asarray(x)"),
        (EXPRESSION, "detach", "dy.nobackprop(x)", "or x.npvalue(), for numbers"),
        (EXPRESSION, "cpu", "x.npvalue()", "numbers come to the host by themselves"),
        (EXPRESSION, "cuda", "x", "what pays goes to the GPU; dy.to_device chooses"),
        (EXPRESSION, "to", "dy.to_device(x, name)"),
        (EXPRESSION, "grad", "x.gradient()", "of parameters: p.grad_as_array()"),
        (EXPRESSION, "zero_grad", "trainer.update()", "which clears all gradients"),
        (EXPRESSION, "requires_grad", "p.set_updated(False)", "freezes a parameter"),
        (EXPRESSION, "requires_grad_", "p.set_updated(False)", "freezes a parameter"),
        (EXPRESSION, "size", "x.dim()", "((d0, d1), batch size)"),
        (EXPRESSION, "ndim", "len(x.shape)"),
        (EXPRESSION, "view", "dy.reshape(x, (2, 3))", "first index fastest"),
        (EXPRESSION, "reshape", "dy.reshape(x, (2, 3))", "first index fastest"),
        (EXPRESSION, "flatten", "dy.reshape(x, (n,))", "first index fastest"),
        (EXPRESSION, "unsqueeze", "dy.reshape(x, (1, n))"),
        (EXPRESSION, "squeeze", "dy.reshape(x, (n,))"),
        (EXPRESSION, "permute", "dy.transpose(x, [1, 0])"),
        (EXPRESSION, "transpose", "dy.transpose(x)"),
        (EXPRESSION, "t", "dy.transpose(x)", "or x.T"),
        (EXPRESSION, "sum", "dy.sum_elems(x)", "by axes: dy.sum_dim(x, [0])"),
        (EXPRESSION, "mean", "dy.mean_elems(x)", "by axes: dy.mean_dim(x, [0], False)"),
        (EXPRESSION, "max", "dy.max_dim(x, 0)", "or np.max(x.npvalue())"),
        (EXPRESSION, "argmax", "np.argmax(x.npvalue())"),
        (EXPRESSION, "matmul", "x * y", "or x @ y"),
        (EXPRESSION, "mul", "dy.cmult(x, y)", "element-wise"),
        (TRAINER, "step", "trainer.update()"),
        (TRAINER, "zero_grad", "trainer.update()", "which clears all gradients"),
        (TRAINER, "param_groups", "trainer.learning_rate", "a property, to be set"),
        (TRAINER, "lr", "trainer.learning_rate", "a property, to be set"),
        (TRAINER, "minimize", "loss.backward(); trainer.update()"),
        (COLLECTION, "parameters", "m.parameters_list()", "or list(m), with tables"),
        (COLLECTION, "named_parameters", "[(p.name(), p) for p in m]"),
        (COLLECTION, "state_dict", "m.save(file)", "or dy.save_safetensors"),
        (COLLECTION, "load_state_dict", "m.populate(file)", "or dy.load_safetensors"),
        (COLLECTION, "train", "nothing", NO_MODES),
        (COLLECTION, "eval", "nothing", NO_MODES),
        (COLLECTION, "zero_grad", "trainer.update()", "which clears all gradients"),
        (COLLECTION, "add_module", "m.add_subcollection(name)"),
        (COLLECTION, "to", "m", "what pays goes to the GPU by itself"),
        (COLLECTION, "cuda", "m", "what pays goes to the GPU by itself"),
        (KEYWORD, "lr", "learning_rate alpha"),
        (KEYWORD, "learning_rate", "alpha"),
        (KEYWORD, "alpha", "learning_rate"),
        (KEYWORD, "params", "m"),
        (KEYWORD, "momentum", "mom"),
        (KEYWORD, "beta1", "beta_1"),
        (KEYWORD, "beta2", "beta_2"),
        (KEYWORD, "b1", "beta_1"),
        (KEYWORD, "b2", "beta_2"),
        (KEYWORD, "betas", "beta_1"),
        (KEYWORD, "epsilon", "eps"),
        (KEYWORD, "input_size", "input_dim"),
        (KEYWORD, "in_features", "input_dim"),
        (KEYWORD, "hidden_size", "hidden_dim"),
        (KEYWORD, "num_layers", "layers"),
        (KEYWORD, "dim", "d dims"),
        (KEYWORD, "axis", "d dims"),
    )
)
_BY_NAME: Final = {(row.of, row.name): row for row in TABLE}


def other_name(of: str, name: str) -> OtherName | None:
    """What the table has for a name that is looked for on something."""
    return _BY_NAME.get((of, name))


def raise_no_attribute(of: str, name: str) -> NoReturn:
    """Say what a name of another library is here.

    Raises:
        AttributeError: always, so that Python has no guess of its own to add.
    """
    row = _BY_NAME[of, name]
    raise AttributeError(
        error_text(
            f"{of}: there is no {name!r}",
            got=f"{name}, as other libraries call it",
            expected="DyNet's names",
            fix=row.told,
        ),
        name=name,
        obj=None,
    )


def known_keyword(keyword: str, known: Iterable[str]) -> str | None:
    """That of the `known` keywords which means what `keyword` means elsewhere."""
    row = _BY_NAME.get((KEYWORD, keyword))
    names = () if row is None else row.here.split()
    return next((name for name in names if name in known), None)


def raise_unknown_keyword(
    name: str, given: Iterable[str], known: Iterable[str]
) -> None:
    """Look for keywords of other libraries.

    Raises:
        TypeError: one of `given` is such a keyword, and none of `known`.
    """
    known = list(known)
    for keyword in given:
        here = None if keyword in known else known_keyword(keyword, known)
        if here is not None:
            raise TypeError(
                error_text(
                    f"{name}() got an unexpected keyword argument {keyword!r}",
                    got=keyword,
                    expected=", ".join(known),
                    fix=f"{here}=, as it is called here",
                )
            )


def check_keywords(cls: type, options: Iterable[str]) -> None:
    """Look for keywords of other libraries in those that a class is called with.

    Raises:
        TypeError: there is one that it has not got.
    """
    if options:
        known = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
        if all(p.kind is not p.VAR_KEYWORD for p in known):
            names = [p.name for p in known][1:]
            raise_unknown_keyword(cls.__name__, options, names)


class KnowsKeywords:
    """Mixin of classes that tell what keywords of other libraries are called here."""

    __slots__ = ()

    def __new__(cls, *args: Any, **options: Any) -> Self:
        check_keywords(cls, options)
        return super().__new__(cls)
