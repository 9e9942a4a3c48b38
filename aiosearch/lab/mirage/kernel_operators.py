"""Kernels in sequence: what each reads, its block's tilings, and the matrices it gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from . import residues
from .block_operators import (
    ELEMENT,
    OPERATORS,
    BlockState,
    Rule,
    Tensor,
    operands_of,
    pieces_of,
    whole,
)
from .tasks import TASKS, MirageTask, Tiling

OUTPUTS = 2
"""How many results a block may give at most."""


class KernelStep(Struct, frozen=True, array_like=True):
    """One kernel: an operator on whole matrices, or a block with a program in `code`."""

    operator: int
    """The number of the kernel in `KERNELS`; `BLOCK` for a block."""
    inputs: bytes
    """The numbers of what it reads: the inputs of the task first, then what kernels give."""
    tiling: int = -1
    code: bytes = b""

    @property
    def rank(self) -> tuple[bytes, int]:
        """The position of the kernel in Mirage's order."""
        return self.inputs, self.operator


@dataclass(frozen=True)
class TiledBlock:
    """A block in one tiling of what it reads."""

    tiling: Tiling
    grid: Tiling
    """Over how many blocks each dimension is spread, where it is; as powers of two."""
    block: BlockState

    def results(self, code: bytes) -> tuple[Tensor, ...]:
        """What the program `code` gives to other kernels; nothing where it cannot end so.

        Whatever nobody reads is given, and every block has its own part of it.
        """
        tensors = self.block.tensors(code)
        read = {operand for piece in pieces_of(code) for operand in operands_of(piece)}
        results = [tensor for number, tensor in enumerate(tensors) if number not in read]
        # A result that is not spread along every axis of the grid would be written by several
        # blocks, as partial sums: such programs are left out.
        if len(results) > OUTPUTS or not all(
            tensor.after and self._spread(tensor) for tensor in results
        ):
            return ()
        return tuple(self._joined(tensor) for tensor in results)

    def _spread(self, tensor: Tensor) -> bool:
        names = tensor.rows_of, tensor.columns_of
        return all(names.count(name) == 1 for name, _ in self.grid)

    def _joined(self, tensor: Tensor) -> Tensor:
        grid = dict(self.grid)
        return replace(
            tensor,
            rows=tensor.rows + grid.get(tensor.rows_of, 0),
            columns=tensor.columns + grid.get(tensor.columns_of, 0),
            after=False,
            room=0,
        )


def _summed(loop: int, x: Tensor) -> Tensor | None:
    if not x.columns:
        return None
    value = residues.of("sum", x.columns, x.residue)
    return Tensor(x.rows, 0, False, f"(sum {x.columns} {x.term})", value, 0, x.rows_of)


KERNELS: tuple[tuple[str, Rule, int], ...] = (*OPERATORS[:6], ("sum", _summed, 1))
"""Operators on whole matrices; the last only where a task has it."""
BLOCK = len(KERNELS)


@lru_cache(maxsize=1024)
def tensors_of(name: str, steps: tuple[KernelStep, ...]) -> tuple[Tensor, ...]:
    """All matrices after the kernels `steps` of a task."""
    if not steps:
        task = TASKS[name]
        return tuple(
            replace(whole(task_input, dict(task.sizes)), room=0) for task_input in task.inputs
        )
    # Prefixes repeat in a search, so the cache makes this one kernel's work.
    before = tensors_of(name, steps[:-1])
    return before + results_of(name, steps[-1], before)


def results_of(name: str, step: KernelStep, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What the kernel `step` gives; nothing where shapes forbid it."""
    operands = tuple(tensors[number] for number in step.inputs)
    if step.operator == BLOCK:
        return cuts(name, operands)[step.tiling].results(step.code)
    result = KERNELS[step.operator][1](0, *operands)
    return () if result is None else (result,)


@lru_cache(maxsize=64)
def steps_over(tensors: int, sums: bool) -> tuple[KernelStep, ...]:
    """Every operator over so many matrices, in the order of `KernelStep.rank`; blocks apart."""
    steps = [
        KernelStep(number, bytes(operands))
        for number, (_, _, arity) in enumerate(KERNELS[: BLOCK if sums else BLOCK - 1])
        for operands in product(range(tensors), repeat=arity)
    ]
    return tuple(sorted(steps, key=lambda step: step.rank))


@lru_cache(maxsize=1024)
def cuts(name: str, operands: tuple[Tensor, ...]) -> tuple[TiledBlock, ...]:
    """Every tiling of `operands`, which a block reads, that fits its memory."""
    task, sizes = TASKS[name], _sizes(operands)
    if sizes is None:
        return ()
    tiled_blocks = (_cut(task, operands, sizes, tiling) for tiling in _tilings(task, sizes))
    return tuple(cut for cut in tiled_blocks if cut.block.fits)


def _sizes(operands: Sequence[Tensor]) -> dict[str, int] | None:
    """The dimensions of matrices; None where they do not agree on one."""
    sizes: dict[str, int] = {}
    for tensor in operands:
        for name, size in ((tensor.rows_of, tensor.rows), (tensor.columns_of, tensor.columns)):
            if name and sizes.setdefault(name, size) != size:
                return None
    return sizes


def _tilings(task: MirageTask, sizes: dict[str, int]) -> Iterator[Tiling]:
    """Tiles no larger than there is, and iterations where there is something to go along."""
    ways = [
        [tile for tile in task.tiles.get(name, (size,)) if tile <= size]
        for name, size in sizes.items()
    ]
    along = sizes.get(task.loop, 0)
    loops = [loop for loop in task.loops if loop <= along] or [0]
    for chosen in product(*ways, loops):
        yield tuple(zip((*sizes, "loop"), chosen, strict=True))


def _cut(
    task: MirageTask, operands: Sequence[Tensor], sizes: dict[str, int], tiling: Tiling
) -> TiledBlock:
    tiles = dict(tiling)
    loop = tiles.pop("loop")
    grid = tuple((name, sizes[name] - tile) for name, tile in tiles.items() if tile < sizes[name])
    if loop:
        tiles[task.loop] -= loop
    return TiledBlock(
        tiling, grid, BlockState(tuple(_tile(tensor, tiles) for tensor in operands), loop)
    )


def _tile(tensor: Tensor, tiles: dict[str, int]) -> Tensor:
    rows, columns = tiles.get(tensor.rows_of, 0), tiles.get(tensor.columns_of, 0)
    return replace(tensor, rows=rows, columns=columns, room=ELEMENT << rows + columns)
