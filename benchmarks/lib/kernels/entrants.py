"""Who runs in a race of kernels: a program as written, plain JAX at its best, kernels of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import lib.kernels.jax_spellings as knownjax
from lib.kernels.rows import Row
from msgspec import Struct

from aiosearch.measure import ArrayType
from aiosearch.optimizer.array_types import array_types
from aiosearch.optimizer.candidates.generation import CandidateQuestion, CandidateSource, Prepacking
from aiosearch.optimizer.candidates.generation_process import GenerationProcess
from aiosearch.optimizer.device_kind import described_gpu
from aiosearch.optimizer.effort import Budget
from aiosearch.pool import usable_cores
from aiosearch.tensor import Program
from aiosearch.tensor.files import from_json, to_json

TEXT = Path(knownjax.__file__).read_text(encoding="utf-8")


class Known(NamedTuple):
    """A spelling in `lib/kernels/jax_spellings.py`, by the names of its functions."""

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


class KernelEntrants(Struct, frozen=True):
    """The program as it is written, and what is to be faster."""

    naive: CandidateSource
    jax: tuple[CandidateSource, ...]
    """Every spelling in plain JAX that is known, by hand or to the optimizer."""
    kernels: tuple[CandidateSource, ...]
    """Those that `optimize` would try."""

    @property
    def forms(self) -> list[Program]:
        """What the kernels were made of."""
        return [from_json(text) for text in dict.fromkeys(one.program for one in self.kernels)]


async def entrants(
    row: Row, budget: Budget, target: str, process: GenerationProcess
) -> KernelEntrants:
    """Everyone that `optimize` would try for a target, and what is known by hand."""
    text = to_json(row.program)
    threads, gpu = (usable_cores(), "") if target == "cpu" else (0, described_gpu())
    question = CandidateQuestion(text, budget, 0, False, row.constant, threads, gpu)
    found = await process.contest(question)
    naive, *others = found.contenders
    plain = [one for one in others if not one.kernels]
    kernels = [one for one in others if one.kernels]
    return KernelEntrants(naive, (*plain, *_by_hand(row, text)), tuple(kernels))


def _by_hand(row: Row, text: bytes) -> Iterator[CandidateSource]:
    for one in KNOWN.get(row.program.name, ()):
        if _fits(one, row):
            how = f"by hand: {one.function.replace('_', ' ')}"
            before = _beforehand(row, one.pack) if one.pack else None
            yield CandidateSource(how, 0, text, TEXT, one.function, (), before)


def _fits(one: Known, row: Row) -> bool:
    """Whether there is one row where it is for one, and weights that stay where it packs some."""
    return (row.key[2] == 1 or not one.single) and bool(row.constant or not one.pack)


def _beforehand(row: Row, pack: str) -> Prepacking:
    types = [array_types(row.program)[at] for at in row.constant]
    given = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in types]
    made: tuple[Any, ...] = jax.eval_shape(getattr(knownjax, pack), *given)
    found = tuple(ArrayType(one.dtype.name, one.shape) for one in made)
    return Prepacking(row.constant, pack, found)
