"""Compiled programs are read as they are written: `benchmarks/offline`.

The programs are short and made up; what they come to is added up by hand.
"""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "benchmarks" / "offline"))

import estimates
import musts
import traffic
from hlo import Module, instruction
from schedule import Schedule

ROW, TABLE = 4 * 128, 4 * 100 * 128  # bytes of float32

# A table is copied, then 5 trips by XLA's own count write a row of it each; in every
# one of them another loop makes trips as its condition says, and a third is counted by
# the arguments of the program. Which of two branches runs is not known.
LOOPS = """\
HloModule loops, entry_computation_layout={(f32[100,128]{1,0})->f32[100,128]{1,0}}

FileNames
1 "/home/someone/network.py"
2 "/usr/lib/python3.11/site-packages/jax/lax.py"

FunctionNames
1 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=4 end_column=9}
2 {file_name_id=2 function_name_id=1 line=99 end_line=99 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}

%put (p0: f32[100,128], p1: f32[100,128], p2: s32[]) -> f32[100,128] {
  %p0 = f32[100,128]{1,0} parameter(0)
  %p1 = f32[100,128]{1,0} parameter(1)
  %p2 = s32[] parameter(2)
  %zero = s32[] constant(0)
  %row = f32[1,128]{1,0} dynamic-slice(%p1, %p2, %zero), dynamic_slice_sizes={1,128}
  %twice = f32[1,128]{1,0} add(%row, %row)
  ROOT %changed = f32[100,128]{1,0} dynamic-update-slice(%p0, %twice, %p2, %zero)
}

%inner_body (q: (s32[], f32[8])) -> (s32[], f32[8]) {
  %q = (s32[], /*index=1*/f32[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%q), index=0
  %v = f32[8]{0} get-tuple-element(%q), index=1
  %w = f32[8]{0} negate(%v)
  ROOT %next = (s32[], f32[8]{0}) tuple(%i, %w)
}

%inner_condition (q: (s32[], f32[8])) -> pred[] {
  %q = (s32[], f32[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%q), index=0
  %limit = s32[] constant(3)
  ROOT %less = pred[] compare(%i, %limit), direction=LT
}

%body (s: (s32[], f32[100,128])) -> (s32[], f32[100,128]) {
  %s = (s32[], f32[100,128]{1,0}) parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %t = f32[100,128]{1,0} get-tuple-element(%s), index=1
  %kept = f32[100,128]{1,0} copy(%t)
  %new = f32[100,128]{1,0} fusion(%t, %kept, %k), kind=kLoop, calls=%put, \
metadata={op_name="jit(run)/put" stack_frame_id=2}
  %start = (s32[], f32[8]{0}) custom-call(), custom_call_target="begin"
  %end = (s32[], f32[8]{0}) while(%start), condition=%inner_condition, body=%inner_body
  ROOT %state = (s32[], f32[100,128]{1,0}) tuple(%k, %new)
}

%condition (s: (s32[], f32[100,128])) -> pred[] {
  %s = (s32[], f32[100,128]{1,0}) parameter(0)
  ROOT %again = pred[] custom-call(), custom_call_target="ask"
}

%short (x: f32[8]) -> f32[8] {
  ROOT %x = f32[8]{0} parameter(0)
}

%long (y: f32[8]) -> f32[8] {
  %y = f32[8]{0} parameter(0)
  %minus = f32[8]{0} negate(%y)
  ROOT %plus = f32[8]{0} negate(%minus)
}

ENTRY %main (a: f32[100,128]) -> f32[100,128] {
  %a = f32[100,128]{1,0} parameter(0)
  %b = f32[100,128]{1,0} copy(%a)
  %c = (s32[], f32[100,128]{1,0}) custom-call(%b), custom_call_target="begin"
  %d = (s32[], f32[100,128]{1,0}) while(%c), condition=%condition, body=%body, \
backend_config={"known_trip_count":{"n":"5"}}
  %e = (s32[], f32[100,128]{1,0}) while(%d), condition=%condition, body=%inner_body, \
metadata={op_name="jit(run)/trips_4/while"}
  %f = s32[] custom-call(), custom_call_target="choose"
  %g = f32[8]{0} custom-call(), custom_call_target="begin"
  %h = f32[8]{0} conditional(%f, %g, %g), branch_computations={%short, %long}
  ROOT %i = f32[100,128]{1,0} get-tuple-element(%e), index=1
}
"""


def scheduled(text=LOOPS, **others):
    """The kernels of a program by name, and its loops by name."""
    found = Schedule(Module(text), **others)
    return {k.name: k for k in found.kernels}, {one.name: one for one in found.loops}


class TestLines:
    """One instruction, read."""

    def test_parts(self):
        line = (
            "  ROOT %x.1 = (f32[2,3]{1,0:T(8,128)}, s32[]) fusion(%a, %b.2), "
            'kind=kLoop, calls=%f, metadata={op_name="jit(f)/add"}'
        )
        one = instruction(line)
        assert (one.name, one.opcode, one.is_root) == ("x.1", "fusion", True)
        assert one.operands == ["a", "b.2"]
        assert one.arrays == [("f32", [2, 3]), ("s32", [])]
        assert (one.numbers, one.bytes) == (7, 28)
        assert (one.attribute("calls"), one.scope) == ("f", "jit(f)/add")

    @pytest.mark.parametrize(
        ("kind", "size"), [("pred", 1), ("bf16", 2), ("f32", 4), ("c64", 8)]
    )
    def test_sizes_of_numbers(self, kind, size):
        assert instruction(f"%x = {kind}[5]{{0}} negate(%y)").bytes == 5 * size

    def test_constants_have_no_operands(self):
        one = instruction('%x = s32[] constant(12), metadata={op_name="a"}')
        assert (one.literal, one.operands) == ("12", [])

    def test_other_lines_are_none(self):
        assert instruction("}") is None


class TestLoops:
    """How often they run, and with them what is in them."""

    def test_trips(self):
        kernels, loops = scheduled(trips={4: 9})
        assert {name: one.trips for name, one in loops.items()} == {
            "d": 5,  # XLA's own count
            "end": 15,  # 3 for each of these, as the condition says
            "e": 9,  # by the number in its scope
        }
        assert all(one.known for one in loops.values())
        assert kernels["b"].times == 1
        assert kernels["kept"].times == kernels["new"].times == 5
        assert (kernels["kept"].loop, kernels["b"].loop) == ("d", "")

    def test_chunks_of_trips(self):
        """Of lanes that a loop's trips have had, eight trips at a time."""
        scope = "trips_4/chunks_of_8_trips/while"
        _, loops = scheduled(LOOPS.replace("trips_4/while", scope), trips={4: 9})
        assert loops["e"].trips == 2

    def test_unknown_trips_are_one(self):
        _, loops = scheduled()
        assert (loops["e"].trips, loops["e"].known) == (1, False)

    def test_kernels_of_a_trip(self):
        _, loops = scheduled()
        assert loops["d"].kernels == 4  # two, one that begins, and the loop in it
        assert loops["end"].kernels == 1

    def test_conditions_run_once_more_than_their_loops(self):
        found = Schedule(Module(LOOPS), {4: 9}).kernels
        times = [k.times for k in found if k.name == "again"]
        assert times == [6, 10]
        assert [k.times for k in found if k.name == "less"] == [15 + 5]

    def test_longest_branch(self):
        kernels, _ = scheduled()
        assert {"minus", "plus"} <= set(kernels)


class TestTraffic:
    """What is read and written."""

    def test_copy(self):
        kernels, _ = scheduled()
        assert (kernels["kept"].read, kernels["kept"].written) == (TABLE, TABLE)
        assert kernels["kept"].is_copy

    def test_row_in_place(self):
        kernels, _ = scheduled()
        put = kernels["new"]
        assert (put.kind, put.written) == ("put", ROW)
        assert put.read == ROW + 4  # and the number of the row

    def test_origin_without_libraries(self):
        kernels, _ = scheduled()
        assert kernels["new"].origin == "network.py:12"

    def test_copies_of_loops_apart(self):
        found, _ = estimates.on_gpu(LOOPS, {4: 9})
        assert found.copies == 6
        assert (found.copied, found.looped) == (6 * TABLE, 5 * TABLE)


PRODUCTS = """\
HloModule products

%multiply (l: f32[2,64,32], r: f32[2,32,16]) -> f32[2,64,16] {
  %l = f32[2,64,32]{2,1,0} parameter(0)
  %r = f32[2,32,16]{2,1,0} parameter(1)
  ROOT %dot = f32[2,64,16]{2,1,0} dot(%l, %r), lhs_batch_dims={0}, \
rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}, \
operand_precision={highest,highest}
}

%cut (z: f32[1000,4], n: s32[6,1]) -> f32[6,4] {
  %z = f32[1000,4]{1,0} parameter(0)
  %n = s32[6,1]{1,0} parameter(1)
  ROOT %rows = f32[6,4]{1,0} gather(%z, %n), offset_dims={1}, slice_sizes={1,4}
}

%cut_and_turned (table: f32[1000,4], numbers: s32[6,1]) -> f32[6,4] {
  %table = f32[1000,4]{1,0} parameter(0)
  %numbers = s32[6,1]{1,0} parameter(1)
  %within = f32[6,4]{1,0} fusion(%table, %numbers), kind=kLoop, calls=%cut
  ROOT %turned = f32[6,4]{1,0} negate(%within)
}

ENTRY %main (x: f32[2,64,32], t: f32[1000,4], n: s32[6,1]) -> f32[6,4] {
  %x = f32[2,64,32]{2,1,0} parameter(0)
  %y = f32[2,32,16]{2,1,0} parameter(1)
  %t = f32[1000,4]{1,0} parameter(2)
  %n = s32[6,1]{1,0} parameter(3)
  %fused = f32[2,64,16]{2,1,0} fusion(%x, %y), kind=kCustom, calls=%multiply, \
backend_config={"estimated_cycles":"3000"}
  %called = (f32[2,64,16]{2,1,0}, s8[99]{0}) custom-call(%x, %y), \
custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{\
"dot_dimension_numbers":{"lhs_contracting_dimensions":["2"],\
"rhs_contracting_dimensions":["1"],"lhs_batch_dimensions":["0"],\
"rhs_batch_dimensions":["0"]},"precision_config":{"operand_precision":[\
"DEFAULT","DEFAULT"]}}}
  %minus_six = f32[6,4]{1,0} fusion(%t, %n), kind=kLoop, calls=%cut_and_turned
  ROOT %six = f32[6,4]{1,0} fusion(%t, %n), kind=kLoop, calls=%cut
}
"""


class TestProducts:
    """Products of matrices: fused, and of a library."""

    @pytest.mark.parametrize(("name", "exact"), [("fused", True), ("called", False)])
    def test_sizes(self, name, exact):
        kernels, _ = scheduled(PRODUCTS)
        assert kernels[name].kind == "gemm"
        assert kernels[name].products == [traffic.Product(2, 64, 16, 32, exact)]
        assert kernels[name].flops == 2 * 2 * 64 * 16 * 32

    def test_bytes(self):
        kernels, _ = scheduled(PRODUCTS)
        read, written = 4 * (2 * 64 * 32 + 2 * 32 * 16), 4 * 2 * 64 * 16
        for name in "fused", "called":  # not what a library needs for itself
            assert (kernels[name].read, kernels[name].written) == (read, written)

    def test_gathered_rows_are_read_and_no_others(self):
        kernels, _ = scheduled(PRODUCTS)
        six = kernels["six"]
        assert (six.kind, six.read, six.written) == ("gather", 96 + 24, 96)

    def test_a_fusion_within_another(self):
        kernels, _ = scheduled(PRODUCTS)
        six, minus = kernels["six"], kernels["minus_six"]
        assert (minus.kind, minus.read, minus.written) == ("gather", six.read, 96)


class TestEstimates:
    """What follows from the counts."""

    def test_sum(self):
        found, schedule = estimates.on_gpu(PRODUCTS)
        each = sum(kernel.us for kernel in schedule.kernels)
        assert found.us == pytest.approx(each + estimates.LAUNCH)
        assert found.kernels == 4

    def test_a_small_kernel_takes_as_long_as_its_start(self):
        _, schedule = estimates.on_gpu(PRODUCTS)
        assert schedule.kernels[-1].us == estimates.SMALL

    def test_large_arrays_take_what_memory_does(self):
        text = PRODUCTS.replace("1000", "10000000").replace("[6,", "[9000000,")
        _, schedule = estimates.on_gpu(text)
        six = schedule.kernels[-1]
        size = 9_000_000 * (16 + 4 + 16)
        assert six.read + six.written == size
        took = estimates.SMALL - 1 + size / estimates.MEMORY
        assert six.us == pytest.approx(took)

    def test_cycles_that_a_compiler_tells(self):
        _, schedule = estimates.on_tpu(PRODUCTS)
        assert schedule.kernels[0].us == pytest.approx(3000 / estimates.CLOCK)

    def test_gathers_are_guessed_by_their_rows(self):
        found, schedule = estimates.on_tpu(PRODUCTS)
        cycles = estimates.ROW_LAUNCH + 6 * estimates.ROW
        assert schedule.kernels[-1].us == pytest.approx(cycles / estimates.CLOCK)
        assert found.guessed < found.us


class TestMusts:
    """What is said to be missed."""

    def test_met(self):
        step = {"us": 1000.0, "looped": 0}
        assert not [*musts.missed("h100", "lm64-256", step, step)]

    def test_missed(self):
        hand, ours = {"us": 1000.0}, {"us": 2000.0, "looped": 100 << 20}
        first, second = musts.missed("h100", "lm64-256", ours, hand)
        assert first == "2.00 times as long as by hand, not 1.15"
        assert second == "100 MB are copied in loops, not 64"

    def test_milliseconds(self):
        step = {"us": 4000.0, "looped": 0}
        assert [*musts.missed("h100", "trees256-128", step, None)] == [
            "4.0 ms, not 3.3"
        ]

    def test_a_refused_step_misses_nothing_more(self):
        assert not [*musts.missed("h100", "lm64-256", None, None)]
