"""A whole function exported as StableHLO text that other processes compile; random keys travel as
bits.

NumPy has no type for keys as `jax.random.key` makes them, so that `bits` and `of_bits` go between.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import export

from ...capture.jax_types import Leaf, PyTree
from ...capture.names import title
from ...codegen.native.carrying import carried_texts
from ...codegen.pallas import CUSTOM_CALLS
from ...measure import Cause, Failure, Stage
from ..jax_settings import JaxSettings, use_settings
from ..trace.splice import Spliced


def is_key(like: Leaf) -> bool:
    """Whether something with an element type holds random keys."""
    return bool(jnp.issubdtype(like.dtype, jax.dtypes.prng_key))


def bits(array: Leaf) -> PyTree:
    """The bits of keys; any other array as it is."""
    return jax.random.key_data(array) if is_key(jax.typeof(array)) else array


def bits_type(like: Leaf) -> PyTree:
    """The shape and element type of `bits`, of something that has both."""
    spec = jax.ShapeDtypeStruct(like.shape, like.dtype)  # type: ignore[no-untyped-call]  # jax's
    return jax.eval_shape(jax.random.key_data, spec) if is_key(like) else spec


def of_bits(array: Leaf, like: Leaf) -> PyTree:
    """The keys that `bits` were taken of, if `like` is a key's type; else the array itself."""
    if not is_key(like):
        return array
    return jax.random.wrap_key_data(array, impl=_kind(like))


def _kind(like: Leaf) -> PyTree:
    """The implementation of such keys: jax tells it of keys, and not of their type."""
    kinds: list[Leaf] = []
    jax.eval_shape(lambda key: kinds.append(jax.random.key_impl(key)), like)
    return kinds[0]


NAME = "whole"
"""The name of the function in the text."""


@dataclass(frozen=True)
class Exported:
    """A function of packed arrays and those of a call, as StableHLO inside Python.

    In the place of keys it takes and gives their `bits`.
    """

    source: str
    packs: tuple[Leaf, ...]
    """The packed arrays."""
    x64: bool
    function: str = NAME
    """The name of the function in the text."""


def exported(
    spliced: Spliced, settings: JaxSettings, platforms: Sequence[str] | None = None
) -> Exported | Failure:
    """Lowers the pieces, under the settings that they were traced with; for any thread.

    It is for the platform that jax uses here, unless `platforms` names others. Fails where
    something in the function only makes sense in this process, as a callback does.
    """
    cut = spliced.cut
    with use_settings(settings):
        # Packed arrays are arguments: as constants they would be copied into the text.
        packs, tree = jax.tree_util.tree_flatten(spliced.packs(cut.held))

        def flat(*arrays: Leaf) -> list[Leaf]:
            packed = jax.tree_util.tree_unflatten(tree, arrays[: len(packs)])
            leaves = [*map(of_bits, arrays[len(packs) :], cut.avals)]
            return [*map(bits, spliced.flat(leaves, packed))]

        try:
            specs = [*map(_spec, packs), *map(bits_type, cut.avals)]
            jax.eval_shape(flat, *specs)  # the kernels in it are known from now on
            kernel_texts = carried_texts()
            # The text is read by this version of jax, in processes of ours, and kept nowhere.
            calls = [*kernel_texts, *CUSTOM_CALLS]
            checks = [*map(export.DisabledSafetyCheck.custom_call, calls)]
            lowered = export.export(jax.jit(flat), platforms=platforms, disabled_checks=checks)(
                *specs
            )
            module = lowered.mlir_module()
            used = [text for name, text in kernel_texts.items() if name in module]
            data = lowered.serialize()
        except (TypeError, ValueError, NotImplementedError) as error:
            reason = str(error).partition("\n")[0]
            return Failure(title(cut.function, None), Stage.COMPILE, Cause.RAISED, reason)
    return Exported(_text(data, used), tuple(packs), settings.enable_x64)


def _text(data: bytes | bytearray, kernels: Sequence[str]) -> str:
    """A module that has the function, and the kernels that it calls."""
    return f"""from base64 import b85decode

from jax import export

{_entering(kernels)}
{NAME} = export.deserialize(bytearray(b85decode({base64.b85encode(data).decode()!r}))).call
"""


def _entering(kernels: Sequence[str]) -> str:
    if not kernels:
        return ""
    first = "from aiosearch.codegen.native.carrying import carried\n"
    return "\n".join([first, *(f'carried("""{text}""")' for text in kernels)])


def _spec(like: Leaf) -> PyTree:
    return jax.ShapeDtypeStruct(like.shape, like.dtype)  # type: ignore[no-untyped-call]  # jax's
