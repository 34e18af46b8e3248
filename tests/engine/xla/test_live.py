"""Programs in memory are bounded; those that were not used for longest make way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynetjax.engine.xla import compiling
from dynetjax.engine.xla import live as module
from dynetjax.engine.xla.compiling import Compiled
from dynetjax.engine.xla.live import LivePrograms, maps


@pytest.fixture
def live(monkeypatch):
    """Room for three programs."""
    found = LivePrograms(most=3)
    monkeypatch.setattr(compiling, "live", found)
    return found


def made(number):
    return Compiled(lambda x, held: (x * number, held), "held")


def check(program, number, size=3):
    found, _ = program(np.ones(size, np.float32), jnp.zeros(2))
    np.testing.assert_array_equal(found, np.full(size, number))


def test_the_one_used_longest_ago_makes_way_and_comes_back(live):
    programs = [made(k) for k in range(4)]
    for k in 0, 1, 2, 0, 3:
        check(programs[k], k)
    assert [program.is_new for program in programs] == [False, True, False, False]
    assert len(live) == 3
    check(programs[1], 1)
    assert [program.is_new for program in programs] == [False, False, True, False]


def test_a_function_has_programs_for_the_latest_shapes_only(live):
    program = made(3)
    for size in [*range(1, 7), 6, 1]:
        check(program, 3, size)
    assert len(program._programs) == compiling.SHAPES


def test_one_that_was_forgotten_takes_no_room(live):
    for k in range(5):
        check(made(k), k)
    assert len(live) <= 1


@pytest.mark.skipif(not maps(), reason="the system does not tell of maps")
def test_maps_are_given_back(live, monkeypatch):
    """Those of JAX's own programs, too."""
    monkeypatch.setattr(module, "_allowed", lambda: 4 * before + 100)
    jax.clear_caches()
    before = maps()
    programs = [made(k) for k in range(2)]
    for k, program in enumerate(programs):
        check(program, k)
    plain = jax.jit(lambda x: jnp.sort(x) @ x)
    for size in range(4, 4 + module.EVERY):
        plain(np.ones(size, np.float32))
        live.note()
    assert maps() > before + module.EVERY
    live.look()
    assert maps() < before + module.EVERY
    assert [program.is_new for program in programs] == [True, False]
    for k, program in enumerate(programs):
        check(program, k)


def test_few_maps_are_left_alone(live):
    programs = [made(k) for k in range(2)]
    for k, program in enumerate(programs):
        check(program, k)
    live._since = module.EVERY
    live.look()
    assert live._since == 0
    assert not any(program.is_new for program in programs)


@pytest.mark.parametrize("text", [None, "many"])
def test_where_the_system_does_not_tell(monkeypatch, tmp_path, text):
    file = tmp_path / "told"
    if text:
        file.write_text(text)
    monkeypatch.setattr(module, "_ALLOWED", file)
    monkeypatch.setattr(module, "_MAPS", tmp_path / "absent")
    assert module._allowed() == 65536
    assert maps() == 0
