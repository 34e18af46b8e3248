"""Fourier transforms, and complex numbers on the way."""

import jax.numpy as jnp
import numpy as np
import pytest
from computed import check, program

pytestmark = pytest.mark.usefixtures("natively")

random = np.random.RandomState(2)
SIZES = [1, 2, 3, 4, 5, 6, 8, 12, 13, 30]


def both(x, xp):
    """Real and imaginary parts side by side."""
    return xp.concatenate([x.real, x.imag])


@pytest.mark.parametrize("n", SIZES)
def test_real_numbers_there_and_back(n):
    x, y = random.normal(size=(2, n))
    check(lambda x: both(jnp.fft.rfft(x), jnp), lambda x: both(np.fft.rfft(x), np), x)
    check(
        lambda x, y: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.conj(jnp.fft.rfft(y)), n),
        lambda x, y: np.array([x @ np.roll(y, k) for k in range(n)]),
        x,
        y,
    )


@pytest.mark.parametrize("n", SIZES)
def test_complex_numbers_there_and_back(n):
    x, y = random.normal(size=(2, n))
    check(
        lambda x, y: both(jnp.fft.fft(x + 1j * y), jnp),
        lambda x, y: both(np.fft.fft(x + 1j * y), np),
        x,
        y,
    )
    check(
        lambda x, y: both(jnp.fft.ifft(x - 1j * y), jnp),
        lambda x, y: both(np.fft.ifft(x - 1j * y), np),
        x,
        y,
    )


def test_other_lengths():
    x = random.normal(size=7)
    for n in 4, 9:
        check(
            lambda x, n=n: jnp.fft.irfft(jnp.fft.rfft(x)[:3], n),
            lambda x, n=n: np.fft.irfft(np.fft.rfft(x)[:3], n),
            x,
        )


def test_several_axes():
    x = random.normal(size=(2, 3, 4))
    check(lambda x: both(jnp.fft.fft2(x), jnp), lambda x: both(np.fft.fft2(x), np), x)
    check(lambda x: both(jnp.fft.rfftn(x), jnp), lambda x: both(np.fft.rfftn(x), np), x)
    check(
        lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 2j),
        lambda x: np.fft.irfft2(np.fft.rfft2(x) * 2j),
        x,
    )
    check(
        lambda x: both(jnp.fft.fft(x, axis=1), jnp),
        lambda x: both(np.fft.fft(x, axis=1), np),
        x,
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda z, xp: xp.abs(z),
        lambda z, xp: both(z / (z + (2 - 1j)), xp),
        lambda z, xp: both(xp.exp(z), xp),
        lambda z, xp: both(xp.square(z) - xp.conj(z), xp),
        lambda z, xp: both(-z[::-1] * z[2], xp),
        lambda z, xp: both(xp.outer(z, z) @ z, xp),
        lambda z, xp: both(xp.where(z.real > 0, z, 1j * z), xp),
        lambda z, xp: xp.where(z == z[0], 1.0, 2.0) * z.real,
        lambda z, xp: both(xp.sum(z).reshape(1), xp),
    ],
)
def test_complex_numbers(function):
    x, y = random.normal(size=(2, 4))
    check(
        lambda x, y: function(x + 1j * y, jnp),
        lambda x, y: function(x + 1j * y, np),
        x,
        y,
    )


@pytest.mark.parametrize(
    ("kind", "fits"), [(0, (1, 4)), (1, (2, 2)), (2, (1, 7)), (3, (2, 3))]
)
def test_sizes_are_checked(kind, fits):
    program(("FOURIER", *fits, kind), words=8)
    with pytest.raises(ValueError, match="not where it may be"):
        program(("FOURIER", fits[0] + 1, fits[1], kind), words=8)
    with pytest.raises(ValueError, match="no transform"):
        program(("FOURIER", 1, 0, kind), words=8)
    with pytest.raises(ValueError, match="no transform"):
        program(("FOURIER", 1, 1, 4), words=8)
