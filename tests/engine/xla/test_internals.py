"""What JAX and XLA do not document is as this package takes it, or is done without."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from dynetjax.engine.xla import internals
from dynetjax.engine.xla.internals import has_loops_in_loops

X = jnp.ones(3)


def lowered(fn, *args):
    return jax.jit(fn).lower(*(args or (X,)))


def looping(fn):
    return lambda x: lax.fori_loop(0, 3, lambda _, y: fn(y), x)


def branching(fn):
    return lambda x: lax.cond(x[0] > 0, lambda: fn(x), lambda: x)


class TestLoopsInLoops:
    @pytest.mark.parametrize(
        "fn",
        [
            jnp.sin,
            looping(jnp.sin),
            looping(jnp.sort),
            branching(jnp.sin),
            lambda x: looping(jnp.sin)(looping(jnp.cos)(x)),
        ],
    )
    def test_there_are_none(self, fn):
        assert not has_loops_in_loops(lowered(fn))

    @pytest.mark.parametrize(
        "fn",
        [
            looping(looping(jnp.sin)),
            looping(branching(jnp.sin)),
            branching(looping(jnp.sin)),
            looping(jax.jit(looping(jnp.sin))),
            looping(lambda y: lax.igamma(y, y)),
            looping(lambda y: lax.igamma_grad_a(y, y)),
            looping(lambda y: lax.random_gamma_grad(y, y)),
            looping(lambda y: jax.scipy.special.betainc(y, y, y)),
        ],
    )
    def test_there_are(self, fn):
        """Whichever primitive it is that holds one."""
        assert has_loops_in_loops(lowered(fn))

    def test_what_cannot_be_told_may_have_them(self):
        class Other:
            def compiler_ir(self, dialect):
                return None

        assert has_loops_in_loops(Other())


def test_jax_tells_of_what_it_compiles():
    """Each event that is waited for comes, and under its name."""
    events = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: events.append(event)
    )
    number = float(id(events))
    jax.jit(lambda x: x + number)(X)
    assert internals.COMPILED in events
    assert internals.COMPILED.startswith(internals.COMPILING)
