"""How exactly products of matrices are computed on a device beside the host.

Operations ask `PRECISION` when JAX traces them: what was traced must be forgotten where
it changes.
"""

from typing import Any, Final

from dynetjax.core.lazy import lax

EXACT = "highest"
PRECISIONS = EXACT, "tensorfloat32", "bfloat16"
# On an NVIDIA GPU JAX's precisions of these names mean others.
_ALGORITHMS = {"tensorfloat32": "TF32_TF32_F32", "bfloat16": "BF16_BF16_F32"}


class Precision:
    """The precision in which products of matrices are computed.

    Attributes:
        name: one of `PRECISIONS`.
    """

    def __init__(self) -> None:
        self.name: str = EXACT
        self._platform = "cpu"

    def choose(self, name: str, platform: str) -> None:
        """Have products computed so, on a device of this platform."""
        self.name, self._platform = name, platform

    @property
    def of_products(self) -> Any:
        """What `jax.numpy.dot` is told: operands are rounded, sums are float32."""
        if self._platform == "gpu" and self.name in _ALGORITHMS:
            return lax.DotAlgorithmPreset[_ALGORITHMS[self.name]]
        return lax.Precision(self.name)


PRECISION: Final = Precision()
