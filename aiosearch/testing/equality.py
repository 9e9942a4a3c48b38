"""`assert_equal`: two JAX functions compared in a test, by proof where there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..capture.jax_types import Function, Leaf, PyTree
from ..errors import AiosearchError

if TYPE_CHECKING:
    from ..equivalence import Verdict
    from ..tensor.floats import Array

Range = tuple[float, float]
"""The least and the largest value of an input."""


def assert_equal(
    original: Function,
    candidate: Function,
    *args: PyTree,
    ranges: Mapping[str, Range] | None = None,
    tolerance: float | None = None,
    strict: bool = False,
    seed: int = 0,
    seconds: float = 60.0,
) -> Verdict:
    """Raises `AssertionError` unless `candidate` may stand in for `original`.

        assert_equal(plain_softmax, online_softmax, jnp.ones((8, 64)))
        assert_equal(loss, fused_loss, logits, labels, ranges={"labels": (0, 15)})

    Arguments are arrays, `jax.ShapeDtypeStruct`s, or trees of them. Arrays are tried first, as they
    are; more are drawn. `ranges` say which values inputs have, by the names of arguments, or of
    leaves as `params_w`. With a `tolerance` results may be off by that share of their size. The
    verdict, which is given back, says whether equality was proved or tested, and on what.
    """
    verdict = verdict_of_call(
        original, candidate, args, ranges or {}, tolerance, strict, seed, seconds
    )
    if not verdict.status.accepted:
        from ..capture.names import shown

        raise AssertionError(
            f"{shown(candidate)} does not compute what {shown(original)} does: "
            + "\n".join(verdict.summary())
        )
    return verdict


def verdict_of_call(
    original: Function,
    candidate: Function,
    args: tuple[PyTree, ...],
    ranges: Mapping[str, Range],
    tolerance: float | None,
    strict: bool,
    seed: int,
    seconds: float,
    tell: Callable[[str], None] | None = None,
) -> Verdict:
    """The verdict on two functions of these arguments, which may be trees; `tell` hears what each
    layer says."""
    import jax

    from ..capture import CaptureError, JaxFunction, capture
    from ..capture.functions import with_one_set_of_constants
    from ..capture.names import input_names
    from ..capture.values import element_type
    from ..equivalence import (
        InputLimits,
        OutputTypesError,
        Status,
        Verdict,
        verify,
        verify_functions,
    )
    from ..tensor import TensorType

    leaves, tree = jax.tree_util.tree_flatten(args)
    names = input_names(original, args)
    for name in ranges:
        if name not in names:
            raise AiosearchError(f"ranges: no input is called {name}; there are {', '.join(names)}")
    limits = {names.index(name): InputLimits(*ends) for name, ends in ranges.items()}
    given = _given(leaves)
    because = ""
    try:
        captured = [capture(original, *args), capture(candidate, *args)]
        (first, second), held = with_one_set_of_constants(captured)
        verdict = verify(
            first,
            second,
            seed=seed,
            strict=strict,
            # Arrays that are closed over are inputs of the programs, which nobody gives here.
            given=None if held else given,
            limits=limits,
            tolerance=tolerance,
            seconds=seconds,
            floats_alone=True,
            tell=tell,
        )
        if not held or verdict.status is not Status.REFUTED:
            return verdict
        because = f"they differ for some values of what they close over ({', '.join(held)})"
    except CaptureError as error:
        because = error.obstacle

    except OutputTypesError as error:
        return Verdict(Status.REFUTED, str(error), "", "")

    def flat(function: Function) -> Callable[..., PyTree]:
        return lambda *arrays: function(*jax.tree_util.tree_unflatten(tree, arrays))

    types = [TensorType(element_type(leaf.dtype), tuple(leaf.shape)) for leaf in leaves]
    return verify_functions(
        JaxFunction(flat(original), types, "original"),
        JaxFunction(flat(candidate), types, "candidate"),
        because,
        seed=seed,
        strict=strict,
        given=given,
        limits=limits,
        tolerance=tolerance,
        seconds=seconds,
        tell=tell,
    )


def _given(leaves: Sequence[Leaf]) -> list[Array] | None:
    """The arguments as arrays of NumPy, where each of them is an array and not its type alone."""
    import jax
    import numpy as np

    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        return None
    arrays = [np.asarray(leaf) for leaf in leaves]
    # NumPy's own functions do not know bfloat16
    return [array.astype(np.float32) if array.dtype.kind == "V" else array for array in arrays]
