"""Programs of several devices: those that are given an array whose rows lie on several.

XLA divides what reads such an array, and has the devices tell each other what they
found. All else is on every device, and each of them computes the same.
"""

from typing import Any, TypeAlias

from dynetjax.core.lazy import jax

Place: TypeAlias = "jax.sharding.NamedSharding | None"


def place_of(x: Any) -> Place:
    """Where an argument lies, if on several devices."""
    place = getattr(x, "sharding", None)
    return place if isinstance(place, jax.sharding.NamedSharding) else None


def everywhere(shapes: Any) -> Place:
    """A copy on each of the devices of some arguments; None if there is only one."""
    of_several = jax.sharding.NamedSharding  # looked up once a run
    found = [getattr(x, "sharding", None) for x in jax.tree.leaves(shapes)]
    place = next((x for x in found if isinstance(x, of_several)), None)
    return place and of_several(place.mesh, jax.sharding.PartitionSpec())


def placed(shapes: Any, place: Place) -> Any:
    """Arguments where they lie, and those that lie nowhere yet, at `place`."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(
            x.shape, x.dtype, weak_type=x.weak_type, sharding=place_of(x) or place
        ),
        shapes,
    )


def places(like: Any, place: Place) -> Any:
    """Where each of some arguments lies; `place` if it lies nowhere, or is None."""
    return jax.tree.map(
        lambda x: place_of(x) or place, like, is_leaf=lambda x: x is None
    )
