"""What was done when: the picture of hand-made events, and what is recorded."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import dynetjax as dy
from dynetjax.engine.counters import Event
from dynetjax.inspect.timeline import BAR, Timeline, latest

STEP = [  # of a graph that is read twice
    Event("build", None, 0.0, 0.004, "", 30, 7, 1),
    Event("run forward", 0, 0.004, 0.002, "a.py:9 (step)", 0, 7, 1),
    Event("build", None, 0.006, 0.001, "", 4, 7, 1),
    Event("run forward", 0, 0.007, 0.001, "a.py:11 (step)", 0, 7, 1),
    Event("run back", 0, 0.008, 0.005, "<a>:12 (step)", 0, 7, 1),
    Event("update", 0, 0.014, 0.002, "a.py:13 (a_function_with_a_name)", 0, 7, 1),
]

TEXT = """
graph 7: 16.00 ms, 34 nodes
build                 5.00 ms  ######   #                2 x
run forward, tier 0   3.00 ms        ### ##              2 x a.py:9 (step)
run back, tier 0      5.00 ms              ########      <a>:12 (step)
update, tier 0        2.00 ms                       ###  a.py:13 (a_function_...
elsewhere             1.00 ms
"""


class TestPicture:
    def test_text(self):
        assert str(Timeline(STEP)) == TEXT.strip("\n")

    def test_fits_a_terminal(self):
        assert max(map(len, str(Timeline(STEP)).splitlines())) <= 80

    def test_shares_of_rows(self):
        build, forward, *_ = Timeline(STEP).rows()
        first, second = build.spans
        assert first == pytest.approx((0, 0.25))
        assert second == pytest.approx((0.375, 0.4375))
        assert forward.seconds == pytest.approx(0.003)

    def test_a_short_event_can_be_seen(self):
        events = [Event("wait", None, 0.0, 10.0), Event("update", 1, 10.0, 1e-6)]
        last = str(Timeline(events)).splitlines()[-2]
        assert last.endswith("update, tier 1           1 us  " + "#".rjust(BAR))
        assert str(Timeline(events)).startswith("graph 0: 10.00 s, 0 nodes")

    def test_several_graphs(self):
        events = [STEP[0], STEP[0]._replace(start=1.0, graph=9)]
        assert Timeline(events).title() == "graphs 7 to 9: 1.00 s, 60 nodes"

    def test_overlaps_count_once(self):
        """Another thread compiles while this one runs."""
        events = [Event("run forward", 1, 0.0, 3.0), Event("compile", 1, 1.0, 1.0)]
        events.append(Event("wait", None, 4.0, 1.0))
        assert Timeline(events).elsewhere() == 1.0

    def test_nothing(self):
        assert "profiling=2" in str(Timeline([]))
        assert "profiling=2" in Timeline([])._repr_html_()
        assert Timeline([]).seconds == Timeline([]).elsewhere() == 0

    def test_html(self):
        root = ElementTree.fromstring(Timeline(STEP)._repr_html_())
        name = "{http://www.w3.org/2000/svg}"
        assert len(root.findall(f"{name}rect")) == len(STEP)
        texts = [text.text for text in root.findall(f"{name}text")]
        assert "graph 7: 16.00 ms, 34 nodes" in texts
        assert "<a>:12 (step)" in texts


class TestTrace:
    def test_file(self, tmp_path):
        Timeline(STEP).save(tmp_path / "step.json")
        trace = json.loads((tmp_path / "step.json").read_text(encoding="utf-8"))
        _, build, forward, *_ = events = trace["traceEvents"]
        assert [e["ph"] for e in events] == ["M"] + ["X"] * len(STEP)
        assert (build["name"], build["cat"], build["args"]) == (
            "build",
            "program",
            {"nodes": 30, "graph": 7},
        )
        assert (forward["ts"], forward["dur"]) == pytest.approx((4000, 2000))
        assert forward["cat"] == "tier 0"
        assert forward["args"]["line"] == "a.py:9 (step)"

    def test_nothing(self):
        assert len(Timeline([]).trace()["traceEvents"]) == 1


class TestLatest:
    def test_graphs_of_a_thread(self):
        other = Event("compile", 1, 0.0155, 0.1, thread=2)
        events = [e._replace(graph=6, start=e.start - 1) for e in STEP] + STEP + [other]
        assert latest(events, 1, 1) == [*STEP, other]
        assert latest(events, 2, 1) == events
        assert latest(events, 9, 1) == events

    def test_of_a_thread_without_events(self):
        """At exit, say, after another thread has trained."""
        assert latest(STEP, 1, 5) == STEP

    def test_no_graphs(self):
        with pytest.raises(ValueError, match="no graphs, no timeline"):
            dy.timeline(0)


@pytest.fixture
def profiling():
    dy.reset_stats()
    dy.init(profiling=2)
    yield
    dy.init(profiling=0, debug=False)
    dy.reset_stats()


def one_step():
    """The phases of a step."""
    m = dy.ParameterCollection()
    p, trainer = m.add_parameters(3), dy.SimpleSGDTrainer(m)
    for _ in range(2):
        dy.renew_cg()
        loss = dy.squared_norm(p + dy.inputVector([1, 2, 3]))
        loss.value()
        loss.backward()
        trainer.update()
    return dy.timeline()


class TestRecorded:
    def test_not_unless_it_is_asked_for(self):
        dy.reset_stats()
        assert one_step().events == []

    def test_interpreted(self, profiling, natively):
        found = one_step()
        phases = [(e.phase, e.tier) for e in found.events]
        assert phases == [
            ("build", None),
            ("run forward", 0),
            ("run back", 0),
            ("update", 0),
        ]
        assert found.events[0].nodes == 3
        lines = [e.line for e in found.events[1:]]
        assert all(re.fullmatch(r"test_timeline.py:\d+ \(one_step\)", x) for x in lines)
        assert len(set(lines)) == 3
        assert {e.graph for e in found.events} == {dy.cg_version()}

    def test_by_xla(self, profiling, by_xla):
        found = one_step()
        phases = [(e.phase, e.tier) for e in found.events if e.phase != "compile"]
        assert phases[:4] == [
            ("build", None),
            ("plan", 1),
            ("write", 1),
            ("run forward", 1),
        ]
        assert ("run back", 1) in phases
        assert ("update", 1) in phases

    def test_a_compilation(self, profiling, by_xla, runtime):
        m = dy.ParameterCollection()
        dy.renew_cg()
        dy.tanh(m.add_parameters((7, 3)) * dy.inputVector([1, 2, 3])).value()
        assert "compile" in {e.phase for e in dy.timeline().events}

    def test_line_of_a_build(self, profiling):
        dy.init(debug=True)
        assert "(one_step)" in one_step().events[0].line

    def test_a_value_in_the_middle(self, profiling):
        """What is built after it is a build of its own."""
        dy.renew_cg()
        x = dy.tanh(dy.inputVector([1, 2]))
        x.value()
        x.value()
        dy.sum_elems(x).value()
        builds = [e.nodes for e in dy.timeline().events if e.phase == "build"]
        assert builds == [2, 1]

    def test_after_a_revert(self, profiling):
        dy.renew_cg()
        x = dy.inputVector([1, 2])
        dy.cg_checkpoint()
        dy.exp(dy.tanh(x)).value()
        dy.cg_revert()
        dy.exp(x).value()
        dy.sin(x).value()
        builds = [e.nodes for e in dy.timeline().events if e.phase == "build"]
        assert builds[0] == 3
        assert builds[-1] == 1

    def test_seconds_by_phase_are_as_before(self, profiling, natively):
        one_step()
        assert dy.stats().seconds.keys() == {"run"}

    def test_few_are_kept(self, profiling):
        assert dy.stats().events.maxlen == 4096
        assert "events" not in repr(dy.stats())


PROGRAM = """
import dynetjax as dy
dy.init(profiling=2)
dy.renew_cg()
dy.tanh(dy.inputVector([1, 2])).value()
"""


def test_at_exit():
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(
        r"1 graph in 1 run, .*\n(.*\n)*graph 1: .*s, 2 nodes\nbuild ", done.stderr
    )
