"""dynetjax: DyNet's Python API on JAX.

    import dynetjax as dy

The names, arguments and meanings are DyNet's; docs/porting.md lists what differs. What
importing changes in the process stands in `dynetjax.process`.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from dynetjax import process as _process
from dynetjax.builders.bidirectional_tree_lstm import BidirectionalTreeLSTMBuilder
from dynetjax.builders.binary_tree_lstm import BinaryTreeLSTMBuilder
from dynetjax.builders.birnn import BiRNNBuilder
from dynetjax.builders.child_sum_tree_lstm import ChildSumTreeLSTMBuilder
from dynetjax.builders.class_factored_softmax import ClassFactoredSoftmaxBuilder
from dynetjax.builders.compact_vanilla_lstm import CompactVanillaLSTMBuilder
from dynetjax.builders.coupled_lstm import CoupledLSTMBuilder, LSTMBuilder
from dynetjax.builders.fast_lstm import FastLSTMBuilder
from dynetjax.builders.gru import GRUBuilder
from dynetjax.builders.hierarchical_softmax import HierarchicalSoftmaxBuilder
from dynetjax.builders.nary_tree_lstm import NaryTreeLSTMBuilder
from dynetjax.builders.rnn_state import RNNState, StackedRNNState
from dynetjax.builders.simple_rnn import SimpleRNNBuilder
from dynetjax.builders.softmax import SoftmaxBuilder
from dynetjax.builders.sparse_lstm import SparseLSTMBuilder
from dynetjax.builders.standard_softmax import StandardSoftmaxBuilder
from dynetjax.builders.unidirectional_tree_lstm import UnidirectionalTreeLSTMBuilder
from dynetjax.builders.vanilla_lstm import VanillaLSTMBuilder
from dynetjax.cg import ComputationGraph, cg, renew_cg
from dynetjax.compat.device_names import DeviceInfo, available_devices, get_device_info
from dynetjax.compat.hints import install as _tell_other_names
from dynetjax.compat.hints import no_name as _no_name
from dynetjax.compat.startup import DynetParams
from dynetjax.config import init
from dynetjax.config import use_timeline as _use_timeline
from dynetjax.core.dims import Dim, DimError
from dynetjax.core.errors import CompilationWarning
from dynetjax.core.expression import Expression
from dynetjax.core.expression import use_engine as _use_engine
from dynetjax.core.functions import JaxFunction, to_jax
from dynetjax.core.reading import forward, npvalues, values
from dynetjax.core.revert import cg_checkpoint, cg_revert
from dynetjax.engine.engine import Engine as _Engine
from dynetjax.engine.explain import explain
from dynetjax.engine.stats import reset_stats, stats
from dynetjax.graph import cg_version
from dynetjax.inspect.drawing import dot, print_graphviz
from dynetjax.inspect.listing import dump_cg, print_text_graphviz
from dynetjax.inspect.nonfinite import NonFinite, find_nonfinite
from dynetjax.inspect.nonfinite import last_nonfinite as _last_nonfinite
from dynetjax.inspect.tensor import Tensor
from dynetjax.inspect.timeline import timeline
from dynetjax.io.checkpoint import load_checkpoint, save_checkpoint
from dynetjax.io.pair import load, load_generator, save
from dynetjax.io.safetensors import load_safetensors, save_safetensors
from dynetjax.model.collection import Model, ParameterCollection
from dynetjax.model.initializers import *
from dynetjax.model.lookup import LookupParameters, lookup, lookup_batch
from dynetjax.model.parameters import Parameters, const_parameter, parameter
from dynetjax.model.random import mask_seed as _mask_seed
from dynetjax.model.random import reset_random_seed
from dynetjax.ops import operators as _operators  # gives Expression its + and *
from dynetjax.ops import ragged as _ragged  # tells graphs of axes that are lengths
from dynetjax.ops.activations import *
from dynetjax.ops.arithmetic import *
from dynetjax.ops.constants import *
from dynetjax.ops.convolution import *
from dynetjax.ops.custom import jax_op
from dynetjax.ops.draws import *
from dynetjax.ops.elementwise import *
from dynetjax.ops.flow import *
from dynetjax.ops.hinges import *
from dynetjax.ops.inputs import *
from dynetjax.ops.linear import *
from dynetjax.ops.losses import *
from dynetjax.ops.lstm_steps import *
from dynetjax.ops.moments import *
from dynetjax.ops.noise import *
from dynetjax.ops.normalisation import *
from dynetjax.ops.pooling import *
from dynetjax.ops.reductions import *
from dynetjax.ops.rounding import *
from dynetjax.ops.rows import *
from dynetjax.ops.selection import *
from dynetjax.ops.shaping import *
from dynetjax.ops.softmaxes import *
from dynetjax.ops.sparse_softmaxes import *
from dynetjax.ops.tensors import *
from dynetjax.serving.arguments import Id, Ids, Numbers
from dynetjax.serving.export import Exported, export, load_export
from dynetjax.trainers.adadelta import AdadeltaTrainer
from dynetjax.trainers.adagrad import AdagradTrainer
from dynetjax.trainers.adam import AdamTrainer
from dynetjax.trainers.amsgrad import AmsgradTrainer
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.base import check_pending as _check_pending
from dynetjax.trainers.base import is_there_a_trainer as _is_there_a_trainer
from dynetjax.trainers.base import trace_by as _trace_by
from dynetjax.trainers.cyclical import CyclicalSGDTrainer
from dynetjax.trainers.eg import EGTrainer
from dynetjax.trainers.momentum import MomentumSGDTrainer
from dynetjax.trainers.optax_trainer import OptaxTrainer
from dynetjax.trainers.rmsprop import RMSPropTrainer
from dynetjax.trainers.sgd import SimpleSGDTrainer

__version__ = "0.1.0"

_tell_other_names()
_use_engine(_Engine(_mask_seed, _check_pending, _is_there_a_trainer))
_trace_by(_last_nonfinite)
_use_timeline(timeline)
_process.change(computed=lambda: stats().graphs)


def __getattr__(name: str) -> _Any:
    """`dynetjax.parallel`, imported when it is first used."""
    if name == "parallel":
        return _import_module("dynetjax.parallel")
    raise _no_name(__name__, name)
