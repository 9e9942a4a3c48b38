"""What a program is but for its sizes: one name for all that differ only in those and in order."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from typing import Any

from aiosearch.tensor import Kernel, Program, Term

_SIZES = ("grid", "range", "columns", "size", "shape", "dtype", "labels")


def structure(program: Program) -> str:
    """Equal for programs that differ in sizes, in the order of grid axes, of the operands of a
    commutative operator, or of a kernel's outputs."""
    names = _Names()
    return _digest([names.device(output) for output in program.outputs])


class _Names:
    def __init__(self) -> None:
        self._device: dict[Term, str] = {}
        self._kernels: dict[Kernel, tuple[str, list[str]]] = {}

    def device(self, term: Term) -> str:
        if term not in self._device:
            self._device[term] = self._named(term)
        return self._device[term]

    def _named(self, term: Term) -> str:
        if term.operator.name != "result":
            return _operated(term, [self.device(one) for one in term.arguments])
        kernel: Kernel = term.parameter("kernel")
        if kernel not in self._kernels:
            self._kernels[kernel] = min(
                self._kernel(kernel, order) for order in itertools.permutations(range(3))
            )
        whole, stores = self._kernels[kernel]
        return _digest([whole, stores[term.parameter("index")]])

    def _kernel(self, kernel: Kernel, order: Sequence[int]) -> tuple[str, list[str]]:
        """The kernel's name with its grid axes in this order, and each output's."""
        used = [axis for axis in order if kernel.grid[axis] != 1]
        tiles: dict[Term, str] = {}
        for term in kernel.body:
            tiles[term] = self._tile(term, used, tiles)
        stores = [
            _digest([tiles[tile], *(maps[axis] for axis in used)]) for tile, maps in kernel.outputs
        ]
        return _digest([len(used), kernel.range != 1, *sorted(stores)]), stores

    def _tile(self, term: Term, used: Sequence[int], tiles: dict[Term, str]) -> str:
        if term.operator.name == "accumulate":
            return _digest([_accumulator(term), tiles[term.arguments[0]]])
        if term.operator.name != "load":
            return _operated(term, [tiles[one] for one in term.arguments])
        loop = term.parameter("loop") if term.parameter("range") != 1 else None
        maps = [term.parameter("map")[axis] for axis in used]
        return _digest(["load", self.device(term.arguments[0]), loop, *maps])


def _accumulator(term: Term) -> str:
    """What it comes to: rows of one element and loops of one iteration leave less to do."""
    kind: str = term.parameter("kind")
    idle = ("sum", "redtox", "max", "mean") if term.parameter("range") == 1 else ("sum", "redtox")
    return "none" if kind in idle and term.shape == term.arguments[0].shape else kind


def _operated(term: Term, operands: list[str]) -> str:
    ordered = sorted(operands) if term.operator.commutative else operands
    parameters = [value for name, value in term.parameters if name not in _SIZES]
    return _digest([term.operator.name, *parameters, *ordered])


def _digest(parts: Sequence[Any]) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()
