"""Who runs in a race of kernels: a program as written, plain JAX at its best, kernels of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import knownjax
from kernelrows import Row
from msgspec import Struct

from aiosearch.codegen.native.machine import host
from aiosearch.devices import default_device
from aiosearch.equivalence import verify
from aiosearch.measure import ArrayType
from aiosearch.optimizer.contenders import Beforehand, Contender, Question, contest
from aiosearch.optimizer.effort import Budget
from aiosearch.optimizer.kernels import KernelSource, kernel_sources
from aiosearch.optimizer.types import array_types
from aiosearch.pool import usable_cores
from aiosearch.superoptimizer.composing import Composer
from aiosearch.tensor import Program
from aiosearch.tensor.errors import TensorError
from aiosearch.tensor.files import to_json

TEXT = Path(knownjax.__file__).read_text(encoding="utf-8")


class Known(NamedTuple):
    """A spelling in `knownjax.py`, by the names of its functions."""

    function: str
    pack: str = ""
    """Makes something of the program's constant inputs beforehand."""
    single: bool = False
    """Whether it is for one row alone."""


KNOWN: Mapping[str, Sequence[Known]] = MappingProxyType(
    {
        "rms_norm": (
            Known("norm_first"),
            Known("norm_last"),
            Known("norm_first_turned", "turned"),
            Known("norm_last_turned", "turned"),
            Known("norm_first_two_rows", single=True),
            Known("norm_last_two_rows", single=True),
            Known("norm_first_turned_two_rows", "turned", single=True),
        ),
        "gated_mlp": (
            Known("gated"),
            Known("gated_turned", "turned"),
            Known("gated_side_by_side", "side_by_side"),
            Known("gated_two_rows", single=True),
            Known("gated_turned_two_rows", "turned", single=True),
        ),
        "lora": (Known("adapted"), Known("adapted_merged", "merged")),
        "gqa": (
            Known("divided_late"),
            Known("split"),
            Known("scanned"),
            Known("head_by_head"),
        ),
        "qk_norm": (
            Known("normed_divided_late"),
            Known("normed_split"),
            Known("normed_scanned"),
            Known("normed_head_by_head"),
        ),
        "ntrans": (Known("in_32_bits"),),
    }
)


class Entrants(Struct, frozen=True):
    """The program as it is written, and what is to be faster."""

    naive: Contender
    jax: tuple[Contender, ...]
    """Every spelling in plain JAX that is known, by hand or to the optimizer."""
    kernels: tuple[Contender, ...]
    forms: tuple[Program, ...]
    """What the kernels were made of."""
    without: tuple[str, ...] = ()
    """Why there are none of a form."""


def jax_entrants(row: Row, budget: Budget) -> list[Contender]:
    """The program as it is written first."""
    text = to_json(row.program)
    question = Question(text, budget, 0, False, row.constant)
    by_hand = [_known(row, text, one) for one in KNOWN.get(row.program.name, ())]
    singles = {one.function for one in KNOWN.get(row.program.name, ()) if one.single}
    if row.key[2] > 1:
        by_hand = [one for one in by_hand if one.function not in singles]
    return [*contest(question, lambda text: None).contenders, *by_hand]


def _known(row: Row, text: bytes, one: Known) -> Contender:
    how = f"by hand: {one.function.replace('_', ' ')}"
    before = _beforehand(row, one.pack) if one.pack else None
    return Contender(how, 0, text, TEXT, one.function, (), before)


def _beforehand(row: Row, pack: str) -> Beforehand:
    types = [array_types(row.program)[at] for at in row.constant]
    given = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in types]
    made: tuple[Any, ...] = jax.eval_shape(getattr(knownjax, pack), *given)
    found = tuple(ArrayType(one.dtype.name, one.shape) for one in made)
    return Beforehand(row.constant, pack, found)


def cpu_entrants(row: Row, budget: Budget) -> Entrants:
    """Kernels of the program as it is, and of what the superoptimizer fuses it to."""
    found = tuple(forms(row.program, budget.search_seconds))
    kernels: list[Contender] = []
    without: list[str] = []
    for number, form in enumerate(found):
        try:
            ways = kernel_sources(form, host(), usable_cores(), budget.kernels, row.constant)
        except TensorError as error:
            without.append(f"no kernels of form {number}: {error}")
            continue
        kernels += [_kernels(number, form, one) for one in ways]
    naive, *others = jax_entrants(row, budget)
    return Entrants(naive, tuple(others), tuple(kernels), found, tuple(without))


def forms(program: Program, seconds: float) -> Iterator[Program]:
    """The program itself, and the fused one that the superoptimizer puts first, if it is right."""
    yield program
    fused = Composer(default_device(), seconds).fused(program)
    if fused is not None and verify(program, fused, floats=False).status.accepted:
        yield fused


def _kernels(number: int, form: Program, one: KernelSource) -> Contender:
    before = Beforehand(one.positions, one.pack, one.types) if one.positions else None
    how = f"{'fused' if number else 'as it is'}; {one.how}"
    return Contender(how, number, to_json(form), one.source, one.function, (), before, kernels=True)
