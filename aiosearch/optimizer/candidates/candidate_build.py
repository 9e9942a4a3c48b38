"""What is compiled of a candidate for a race, and its prepacked inputs.

`candidate` is what an executor times; `packer` is what has to run before, for a candidate that
makes something of constant inputs; `PrepackedInputs` has the results for drawn inputs.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyio import to_thread

from ...capture.jax_types import Leaf
from ...measure import ArrayType, Candidate, Compiled, Draw, Executor, Failure
from ...measure.random_inputs import draw
from ...tensor import Program
from ..array_types import array_types
from ..jax_settings import JaxSettings
from .generation import CandidateSource


def candidate(program: Program, contender: CandidateSource, settings: JaxSettings) -> Candidate:
    """What is timed of a contender; what it makes beforehand are further inputs."""
    types, before = array_types(program), contender.beforehand
    if before is not None:
        unpacked = [array_type for at, array_type in enumerate(types) if at not in before.positions]
        types = (*unpacked, *before.types)
    return _under(settings, contender.how, contender.source, contender.function, types)


@dataclass(frozen=True)
class Packer:
    """Makes a contender's inputs from the program's, on the device."""

    executor: Executor
    positions: tuple[int, ...]
    compiled: Compiled

    async def packed(self, inputs: Sequence[Leaf]) -> list[Leaf] | Failure:
        """The inputs that are not packed, then what is made of those that are."""
        constants = [inputs[at] for at in self.positions]
        packed = await self.executor.run(self.compiled, constants)
        if isinstance(packed, Failure):
            return packed
        unpacked = [array for at, array in enumerate(inputs) if at not in self.positions]
        return [*unpacked, *packed]


async def packer(
    executor: Executor, program: Program, contender: CandidateSource, settings: JaxSettings
) -> Packer | Failure | None:
    """What has to run before a contender does; `None` for most."""
    before = contender.beforehand
    if before is None:
        return None
    whole = array_types(program)
    types = tuple(whole[at] for at in before.positions)
    name = f"{contender.how}: {before.function}"
    compiled = await executor.compile(
        _under(settings, name, contender.source, before.function, types)
    )
    if isinstance(compiled, Failure):
        return compiled
    return Packer(executor, before.positions, compiled)


class PrepackedInputs:
    """What contenders make beforehand of drawn inputs, where it cannot be drawn itself.

    The same arrays serve all contenders that make them in the same way.
    """

    def __init__(
        self, executor: Executor, program: Program, settings: JaxSettings, seed: int
    ) -> None:
        self._executor, self._program, self._settings = executor, program, settings
        self._seed, self._types = seed, array_types(program)
        self._made: dict[str, Sequence[Leaf]] = {}

    async def of(
        self, contender: CandidateSource, draws: Mapping[int, Draw]
    ) -> dict[int, Leaf] | Failure:
        """What a contender makes, by its positions among what it takes; nothing where random
        numbers do as well.

        Layouts of the inputs' own types can be drawn; a code of them cannot. What is watched has to
        be finite, so it is made of inputs for which the original is.
        """
        before = contender.beforehand
        if before is None:
            return {}
        dtypes = {self._types[at].dtype for at in before.positions}
        if {array_type.dtype for array_type in before.types} <= dtypes and not contender.watched:
            return {}
        # By its text: names of candidates differ where the way to pack is equal.
        how = _text_of(contender.source, before.function)
        if how not in self._made:
            packed = await self._make(contender, before.positions, draws)
            if isinstance(packed, Failure):
                return packed
            self._made[how] = packed
        # Packed arrays stand behind all inputs that are not packed.
        first = len(self._types) - len(before.positions)
        return dict(enumerate(self._made[how], first))

    async def _make(
        self, contender: CandidateSource, positions: Sequence[int], draws: Mapping[int, Draw]
    ) -> Sequence[Leaf] | Failure:
        prepacker = await packer(self._executor, self._program, contender, self._settings)
        if not isinstance(prepacker, Packer):
            assert prepacker is not None, "it makes something beforehand"
            return prepacker
        inputs = [
            await to_thread.run_sync(draw, self._types[at], self._seed, at, draws.get(at))
            for at in positions
        ]
        return await self._executor.run(prepacker.compiled, inputs)


def _text_of(source: str, function: str) -> str:
    """The text of a function of a source, whatever is around it."""
    definitions = (
        definition
        for definition in ast.parse(source).body
        if isinstance(definition, ast.FunctionDef)
    )
    return next(
        ast.unparse(definition) for definition in definitions if definition.name == function
    )


def _under(
    settings: JaxSettings, name: str, source: str, function: str, types: tuple[ArrayType, ...]
) -> Candidate:
    """A candidate that is compiled under the settings of the place where it will be called."""
    return Candidate(
        name,
        source,
        function,
        types,
        x64=settings.enable_x64 or _wide(types),
        precision=settings.default_matmul_precision,
        promotion=settings.numpy_dtype_promotion,
    )


def _wide(types: Sequence[ArrayType]) -> bool:
    """Whether 64-bit types occur, which jax has to be allowed."""
    return any(array_type.dtype in ("float64", "int64") for array_type in types)
