"""The superoptimizer's own search: every program of fused kernels, each with its price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..devices import device
from ..superoptimizer import Fastest, Priced, ProgramDraft, Space
from ..tensor.files import to_json
from ..tensor.programs import builtin


@dataclass(frozen=True)
class Fused:
    """Prices the programs that compute a built-in one, on a device that is described.

    What is no part of the reference was pruned before there is a node. The inner nodes are choices
    of kernels and of operators in their blocks, and take a tenth of a millisecond or so; a leaf
    takes some milliseconds, in which all numbers of its grids and loops are tried. Searched depth
    first, all programs are solutions; with an order that prunes, few are looked at. Every process
    begins with the tables, which take seconds.
    """

    program: str = "rms_norm"
    block_operators: int = 7
    kernels: int = 2
    custom_kernels: int = 2
    device: str = "A100"

    def root(self) -> ProgramDraft:
        """The outputs, for which there are no kernels yet."""
        return self._fastest.root()

    def expand(self, node: ProgramDraft) -> Sequence[ProgramDraft]:
        """Gives a tensor its kernel, or a tile its operands, in every way."""
        return self._fastest.expand(node)

    def solutions(self, node: ProgramDraft) -> tuple[Priced, ...]:
        """A program that lacks nothing, if it fits the device."""
        return self._fastest.solutions(node)

    def cost(self, solution: Priced) -> float:
        """The seconds that `solution` should take."""
        return self._fastest.cost(solution)

    def bound(self, node: ProgramDraft) -> float:
        """No program of the subtree of `node` takes less."""
        return self._fastest.bound(node)

    def key(self, node: ProgramDraft) -> bytes:
        """What the node is: some kernels come about in several ways."""
        return self._fastest.key(node)

    @cached_property
    def _fastest(self) -> Fastest:
        limits = Space(
            block_operators=self.block_operators,
            kernels=self.kernels,
            custom_kernels=self.custom_kernels,
        )
        # Built on first use and not sent: a worker gets the parameters above and computes the
        # tables itself.
        return Fastest(to_json(builtin(self.program)), device(self.device), limits)
