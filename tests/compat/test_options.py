"""Flags of the command line."""

import pytest

from dynetjax.compat.options import Options, parse
from dynetjax.compat.startup import DynetParams


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", {}),
        ("--dynet-seed 5", {"seed": 5}),
        ("--dynet_seed=5 x", {"seed": 5}),
        ("--dynet-seed -1", {"seed": 2**32 - 1}),
        ("train.txt --dynet-mem 1000 --epochs 3", {"mem": "1000"}),
        ("--dynet-memory 100", {"mem": "100"}),
        ("--dynet-mem 1,2,3,4", {"mem": "1,2,3,4"}),
        ("--dynet-autobatch 1 --dynet-autobatch=0", {"autobatch": 0}),
        ("--dynet-autobatch 101", {"autobatch": 101}),
        ("--dynet-weight-decay 1e-5", {"weight_decay": 1e-5}),
        ("--dynet_weight_decay=0.5", {"weight_decay": 0.5}),
        ("--dynet-profiling 2", {"profiling": 2}),
        ("--dynet-gpu", {"requested_gpus": 1}),
        ("--dynet-gpus 2", {"requested_gpus": 2}),
        ("--dynet-gpu-ids 1", {}),
        ("--dynet-devices CPU,GPU:1", {"devices": ("CPU", "GPU:1")}),
        ("--dynet-devices auto", {"devices": ("auto",)}),
        ("--dynet-precision bfloat16", {"precision": "bfloat16"}),
        ("--dynet-viz", {"viz": True}),
        ("--dynet-trust", {"trust": True}),
        ("--dynet-shared-parameters", {"shared_parameters": True}),
        ("--dynet-unknown 3 --seed 4", {}),
    ],
)
def test_parse(line, expected):
    assert parse(line.split()) == Options(**expected)


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("--dynet-seed", "--dynet-seed: it will not do"),
        ("--dynet-seed --dynet-mem 5", "no value"),
        ("--dynet-seed many", "expected: a whole number"),
        ("--dynet-mem 0", "MB, or MB of four pools"),
        ("--dynet-mem 1,2", "MB, or MB of four pools"),
        ("--dynet-autobatch 50", "0, 1, 2, 3, or more than 99"),
        ("--dynet-profiling 3", "from 0 to 2"),
        ("--dynet-weight-decay 1", "0 <= number < 1"),
        ("--dynet-weight-decay x", "0 <= number < 1"),
        ("--dynet-gpus -1", "from 0"),
        ("--dynet-gpus 1 --dynet-gpus 1", "given twice"),
        ("--dynet-devices CPU:0", "auto, CPU, or GPU:0 and the like"),
        ("--dynet-devices auto,CPU", "auto, CPU, or GPU:0 and the like"),
        ("--dynet-precision float64", "highest, tensorfloat32, bfloat16"),
        ("--dynet-devices CPU,CPU", "each device once"),
        ("--dynet-devices CPU --dynet-gpus 1", "one of them"),
    ],
)
def test_wrong_values(line, match):
    with pytest.raises(ValueError, match=match):
        parse(line.split())


CONF = {
    "mem": "512",
    "seed": 7,
    "autobatch": 1,
    "profiling": 0,
    "weight_decay": 0.25,
    "shared_params": 0,
    "requested_gpus": 0,
    "gpu_mask": [],
}


class TestDynetParams:
    def test_from_config(self):
        params = DynetParams()
        params.from_config(CONF)
        assert params.options == Options(seed=7, autobatch=1, weight_decay=0.25)

    def test_from_args(self):
        params = DynetParams()
        params.from_args(shared_parameters=True, words=["--dynet-seed", "3"])
        assert params.options == Options(seed=3, shared_parameters=True)

    def test_gpu_mask(self):
        params = DynetParams()
        params.set_gpu_mask([0, 1, 1])
        assert params.options.devices == ("GPU:1", "GPU:2")
        params.set_cpu_mode()
        assert params.options.devices == ("CPU",)

    @pytest.mark.parametrize(
        ("changed", "error", "match"),
        [
            ({"seed": -1}, OverflowError, "the seed is out of range"),
            ({"gpu_mask": [2]}, ValueError, "a list of 0 and 1"),
            ({"mem": "x"}, ValueError, "set_mem: it will not do"),
            ({"weight_decay": -1}, ValueError, "set_weight_decay: it will not do"),
            ({"autobatch": 4}, ValueError, "set_autobatch: it will not do"),
            ({"profiling": 5}, ValueError, "set_profiling: it will not do"),
            ({"requested_gpus": -1}, ValueError, "set_requested_gpus: it will not do"),
        ],
    )
    def test_wrong_values(self, changed, error, match):
        with pytest.raises(error, match=match):
            DynetParams().from_config(CONF | changed)
