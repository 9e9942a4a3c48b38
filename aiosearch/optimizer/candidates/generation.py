"""Generation of candidates: from a program to the sources that are worth a race.

The way of a program through `CandidateGenerator.contest`:

    improve          equal programs that should be faster, by `algebra`
    composed         what fused kernels compute, as plain operators, by the superoptimizer
    verify           each of them once: what is not accepted is refused with its reason
    spellings        each accepted program in several texts
    packings         each again, with what constant inputs allow to make beforehand
    kernels          the best few as machine code

A form is a rewritten program; form 0 is the original.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ...codegen.lower.value_graph import LoweringError
from ...codegen.native import NativeError, host
from ...codegen.pallas import CannotPrint
from ...codegen.schedule.plans import best_plans
from ...devices import default_device, device, with_units
from ...equivalence import ProofWork, verify
from ...measure import ArrayType
from ...superoptimizer import Composer
from ...tensor import Program
from ...tensor.analysis.integer_overflow import may_overflow
from ...tensor.files import from_json, to_json
from ..algebra import derivations
from ..array_types import array_types
from ..effort import NO_DEADLINE, Budget, Deadline
from .candidate_names import (
    AS_WRITTEN,
    FUSED,
    DistinctNames,
    composed_name,
    merged_name,
    rewrite_name,
    spelling_name,
)
from .cpu_kernels import CpuKernels, RankedSpaces
from .gpu_kernels import GpuKernels, KernelPrinter, describe_missing_kernels
from .jax_source import block_rows, emit, emit_blocked, emit_pack, merged, names
from .schedule_point import KernelSource, KernelSpace, SchedulePoint
from .spellings import Spelling, spellings
from .weight_packing import PackedProgram, merge_weights, packings

REWRITES_AS_KERNELS = 3
"""How many of the programs that rules make are run as kernels."""
BLOCKED_FORMS = 2
"""How many programs, the original among them, are also run in blocks of rows."""
COMPOSED_PROGRAMS = 2
"""How many programs the superoptimizer may add to those of the algebra."""


class CandidateQuestion(Struct, frozen=True):
    """What is asked of the process that generates candidates."""

    program: bytes
    """As JSON."""
    budget: Budget
    seed: int
    strict: bool
    constant: tuple[int, ...] = ()
    """Positions of the inputs that stay the same from call to call."""
    threads: int = 0
    """Threads of the processor for which kernels are to be made; 0 for no kernels."""
    gpu: str = ""
    """The device for which kernels are to be made, by the name that `devices` has for it; empty for
    none."""
    mosaic: bool = False
    """Whether kernels are also made for Mosaic GPU, which is there and can be timed."""
    gpu_units: int = 0
    """The multiprocessors of the GPU itself, which may only be built like the one of that name; 0
    for as many as that has."""
    row_blocks: bool = False
    """Whether rows are also computed block by block, as pays where caches are what is short."""


class Prepacking(Struct, frozen=True):
    """What a source makes once of some inputs; a call takes the others, and then that."""

    positions: tuple[int, ...]
    function: str
    """Makes it of the inputs at `positions`, as a tuple."""
    types: tuple[ArrayType, ...]
    """The types of the arrays in the tuple."""


class CandidateSource(Struct, frozen=True):
    """One way to write a program down: a contender of the race."""

    how: str
    """What was done to the original, in words: `scale after the product, one fused kernel`. No two
    candidates of one question share them."""
    form: int
    """The number of the rewritten program; 0 is the original."""
    program: bytes
    source: str
    function: str
    verdict: tuple[str, ...]
    """What is known of the program and how, a line each; empty for the original."""
    beforehand: Prepacking | None = None
    place: SchedulePoint | None = None
    """The point of the schedule space, where it is kernels of ours; `None` where it is JAX."""
    watched: bool = False
    """Whether it computes the original where its result is not finite (`guard_candidate`)."""
    schedule: str = ""
    """The tiles and layouts of each kernel, as short as can be; empty where it is JAX."""

    @property
    def kernels(self) -> bool:
        """Whether it is code of ours rather than JAX."""
        return self.place is not None


class CandidateSet(Struct, frozen=True, tag=True):
    """All that is to be tried, the original as it is first; and what was left out as unproven."""

    contenders: tuple[CandidateSource, ...]
    refused: tuple[str, ...]


HearCandidate: TypeAlias = Callable[[CandidateSource], None]
"""Hears of each candidate when it is certain to be tried, before it has its last name; of some
twice."""


def ignore(source: CandidateSource) -> None:
    """Hears of a candidate, and does nothing."""


class CandidateGenerator:
    """One question, and what stays known of it: all the kernels that could be made."""

    def __init__(
        self,
        question: CandidateQuestion,
        tell: Callable[[str], None],
        deadline: Deadline = NO_DEADLINE,
        hear: HearCandidate = ignore,
    ) -> None:
        """After the `deadline` nothing further is made, but what the original has: its spelling as
        written, and its best kernels."""
        self._question = question
        self._tell = tell
        self._hear = hear
        self._forms = _VerifiedRewrites(question, tell, deadline, hear)

    def contest(self) -> CandidateSet:
        """Rewrites a program, verifies what comes out, and writes each down in several ways.

        Where inputs stay the same, as many ways again make something of them beforehand.
        """
        forms, question = self._forms, self._question
        programs = chain(forms.improved(), forms.composed())
        rewrites = forms.accepted(programs, self._hear_first)
        ways = [list(_ways(form)) for form in rewrites]
        # The original in its plain spelling is the first of the first list, and so of the race.
        chosen = _by_turns(ways, question.budget.contenders)
        if question.row_blocks:
            chosen += [way for form in rewrites[:BLOCKED_FORMS] for way in _blocked_ways(form)]
        # A weight that stays the same allows rewrites that pay only then, such as products of
        # weights.
        if question.constant:
            rewrites = forms.accepted(forms.improved(question.constant))
            rewrites = [*rewrites, *forms.accepted(forms.prepared(rewrites))[1:]]
            ways = [list(_packed_ways(form, question.constant)) for form in rewrites]
            chosen += _by_turns(ways, question.budget.contenders)
        for source in chosen:
            self._hear(source)
        if question.threads or question.gpu:
            try:
                chosen += forms.kernels(rewrites)
            except NativeError as error:  # as where LLVM is not there
                self._tell(describe_missing_kernels(error))
        return CandidateSet(tuple(map(forms.distinct, chosen)), tuple(forms.refused))

    def _hear_first(self, form: _VerifiedRewrite) -> None:
        """Announces the first spelling of a form, which is tried if there is room for each form."""
        if form.number < self._question.budget.contenders:
            self._hear(next(_ways(form)))

    def neighbours(self, place: SchedulePoint) -> list[SchedulePoint]:
        """The points that differ in one choice from one that was given."""
        _, kernels = self._forms.lowered[place.form]
        return [replace(neighbour, form=place.form) for neighbour in kernels.neighbours(place)]

    def contender(self, place: SchedulePoint) -> CandidateSource:
        """A source with these kernels; raises `AiosearchError` where there is none."""
        return self._forms.contender(place)


def generate_candidates(question: CandidateQuestion, tell: Callable[[str], None]) -> CandidateSet:
    """What can be tried, for a caller that asks nothing further."""
    return CandidateGenerator(question, tell).contest()


@dataclass(frozen=True)
class _VerifiedRewrite:
    """A program that is known to compute what the original does."""

    program: Program
    number: int
    verdict: tuple[str, ...]
    name: str = ""
    """What was done to the original, in words; empty where it is the original."""

    @property
    def how(self) -> str:
        return self.name or AS_WRITTEN

    def described(self, *further: str) -> str:
        """What was done to the original, and then to the program."""
        return ", ".join(filter(None, (self.name, *further))) or AS_WRITTEN


class _VerifiedRewrites:
    """Rewritten programs, each verified once."""

    def __init__(
        self,
        question: CandidateQuestion,
        tell: Callable[[str], None],
        deadline: Deadline,
        hear: HearCandidate,
    ) -> None:
        self._question = question
        self._tell = tell
        self._hear = hear
        self._deadline = deadline
        self._original = from_json(question.program)
        self._known: dict[Program, _VerifiedRewrite | None] = {
            self._original: _VerifiedRewrite(self._original, 0, ())
        }
        self._wraps = may_overflow(self._original)
        self._proof_seconds_left = question.budget.proof_seconds
        self._names: dict[Program, str] = {}
        """What was done to the original, by the program that came of it."""
        self._distinct = DistinctNames()
        self.refused: list[str] = []
        self.lowered: list[tuple[_VerifiedRewrite, KernelSpace]] = []
        """The forms that can be run as kernels, with all ways to do it; a `SchedulePoint.form` is
        an index of it."""

    def improved(self, constant: tuple[int, ...] = ()) -> Iterator[Program]:
        budget = self._question.budget
        for step in derivations(
            self._original, constant=constant, seconds=budget.search_seconds, most=budget.forms
        ):
            yield self._named(from_json(step.program), rewrite_name(step.trail))

    def composed(self) -> Iterator[Program]:
        """What fused kernels compute that the superoptimizer finds, as plain operators."""
        for program in self._composer.unfused(self._original, COMPOSED_PROGRAMS):
            yield self._named(program, composed_name(self._original, program))

    def _fused(self) -> Iterator[Program]:
        fused = self._composer.fused(self._original)
        if fused is not None:
            yield self._named(fused, FUSED)

    @cached_property
    def _spaces(self) -> RankedSpaces:
        # A single one: rewritten programs have most of their kernels in common.
        return RankedSpaces(host(), self._question.threads)

    @cached_property
    def _composer(self) -> Composer:
        # A single one: what it has found for plain operators is what kernels are made of.
        return Composer(default_device(), self._question.budget.search_seconds / 2)

    def kernels(self, forms: Sequence[_VerifiedRewrite]) -> list[CandidateSource]:
        """The best kernels of these forms, and of what the superoptimizer fuses of the original.

        Those that should be fastest are chosen, one of each form among them; of what forms have
        alike, one alone, as long as there is anything else.
        """
        most = self._question.budget.kernels
        rewrites = [*forms[:REWRITES_AS_KERNELS], *self.accepted(self._fused())]
        self.lowered = []
        for form in dict.fromkeys(rewrites):
            if self.lowered and self._is_late(f"{form.how}, as kernels"):
                break
            try:
                self.lowered.append((form, self._kernels(form.program)))
            except LoweringError as error:
                self._tell(f"{form.how}: {error}")
        ways = [
            [replace(place, form=at) for place in kernels.first(most)]
            for at, (_, kernels) in enumerate(self.lowered)
        ]
        sources: dict[Hashable, CandidateSource] = {}
        # Printed one by one, as the code of a large program takes a second: most are never chosen.
        for place in varied(ways, sum(map(len, ways))):
            if len(sources) == most or (sources and self._is_late("further kernels")):
                break
            try:
                code = self.lowered[place.form][1].code(place)
                if code not in sources:
                    sources[code] = self.contender(place)
                    self._hear(sources[code])
            except CannotPrint as error:  # a tiling may have no text where another one has
                self._tell(describe_missing_kernels(error))
        return sorted(sources.values(), key=_predicted_seconds)

    def contender(self, place: SchedulePoint) -> CandidateSource:
        form, kernels = self.lowered[place.form]
        return self.distinct(_with_kernels(form, kernels.source(place), place))

    def distinct(self, source: CandidateSource) -> CandidateSource:
        """The source, by a name that no other one has."""
        return replace(source, how=self._distinct.name(source.how, source.source))

    def _named(self, program: Program, name: str) -> Program:
        """Remembers what was done, the first time that it comes to this program."""
        self._names.setdefault(program, name)
        return program

    def _kernels(self, program: Program) -> KernelSpace:
        asked = self._question
        if asked.gpu:
            printers = list(KernelPrinter) if asked.mosaic else [KernelPrinter.TRITON]
            gpu = device(asked.gpu)
            gpu = with_units(gpu, asked.gpu_units) if asked.gpu_units else gpu
            return GpuKernels(program, gpu, self._tell, printers=printers)
        return CpuKernels(program, host(), asked.threads, asked.constant, self._spaces)

    def prepared(self, forms: Iterable[_VerifiedRewrite]) -> Iterator[Program]:
        for form in forms:
            for program in merge_weights(form.program, self._question.constant):
                yield self._named(program, form.described(merged_name(form.program, program)))

    def accepted(
        self,
        programs: Iterable[Program],
        hear: Callable[[_VerifiedRewrite], None] = lambda form: None,
    ) -> list[_VerifiedRewrite]:
        """The original first, then those of `programs` that are verified, each of which is heard of
        at once.

        None that computes with integers, nor of an original that does: the verdict is about
        integers that do not overflow.
        """
        rewritten = (
            () if self._wraps else (program for program in programs if not may_overflow(program))
        )
        forms: dict[_VerifiedRewrite, None] = {}
        for program in chain([self._original], rewritten):
            if program not in self._known and self._is_late("a rewritten program"):
                break
            form = self._verified(program)
            if form is not None and form not in forms:
                forms[form] = None
                hear(form)
        return list(forms)

    def _is_late(self, what: str) -> bool:
        """Whether there is no time for something, which is said."""
        if self._deadline.passed:
            self._tell(f"{what}: left out, as the seconds of this effort are for races too")
        return self._deadline.passed

    def _verified(self, program: Program) -> _VerifiedRewrite | None:
        if program not in self._known:
            self._known[program] = self._judged(program)
        return self._known[program]

    def _judged(self, program: Program) -> _VerifiedRewrite | None:
        asked, started = self._question, time.monotonic()
        proof_ends = min(started + self._proof_seconds_left, self._deadline.at)
        verdict = verify(
            # Without floats: those are compared on the device, and only for what wins a race.
            self._original,
            program,
            seed=asked.seed,
            strict=asked.strict,
            floats=False,
            work=ProofWork(asked.budget.proof_steps, proof_ends),
            until=self._deadline.at,
        )
        self._proof_seconds_left -= time.monotonic() - started
        if not verdict.status.accepted:
            self.refused.append(f"{verdict.status}: {verdict.reason}")
            self._tell(f"a rewrite is left out: {self.refused[-1]}")
            return None
        # Numbers are for people, in order of acceptance; what was refused has none.
        number = sum(form is not None for form in self._known.values())
        name = self._names.get(program, f"rewritten {number}")
        rewrite = _VerifiedRewrite(program, number, tuple(verdict.summary()), name)
        self._tell(f"{rewrite.how}: {rewrite.verdict[0]}")
        return rewrite


def varied(ways: Sequence[Sequence[SchedulePoint]], most: int) -> list[SchedulePoint]:
    """The first point of each form, then the best others, last those that another form has as well.

    Choices that are equal in modules that should take as long are taken to be the same kernels.
    """
    # One of each form at any rate, so that none is left out by a prediction alone.
    firsts = [points[0] for points in ways if points]
    first_forms: dict[tuple[object, ...], int] = {}
    new: list[SchedulePoint] = []
    again: list[SchedulePoint] = []
    for point in [*firsts, *best_plans(ways, sum(map(len, ways)))]:
        form = first_forms.setdefault(
            (point.module, point.parting, point.points, point.seconds), point.form
        )
        (new if form == point.form or point in firsts else again).append(point)
    return list(dict.fromkeys([*new, *again]))[:most]


def _predicted_seconds(source: CandidateSource) -> float:
    assert source.place is not None, "it is kernels"
    return source.place.seconds


def _ways(form: _VerifiedRewrite) -> Iterator[CandidateSource]:
    """The program in each spelling; of the original, as it is comes first."""
    packed = to_json(form.program)
    function, _ = names(form.program)
    for spelling, source in _spelled(form.program, form.number == 0):
        how = form.described(spelling_name(spelling, form.program))
        yield CandidateSource(how, form.number, packed, source, function, form.verdict)


def _blocked_ways(form: _VerifiedRewrite) -> Iterator[CandidateSource]:
    """The program with its rows computed block by block, where they allow that."""
    function, _ = names(form.program)
    for rows in block_rows(form.program):
        source = emit_blocked(form.program, rows)
        if source is not None:
            how = form.described(f"blocks of {rows:,} rows")
            packed = to_json(form.program)
            yield CandidateSource(how, form.number, packed, source, function, form.verdict)


def _packed_ways(form: _VerifiedRewrite, constant: tuple[int, ...]) -> Iterator[CandidateSource]:
    """The program parted in each way, what is left for a call in each spelling."""
    for parted in packings(form.program, constant):
        beforehand = _beforehand(parted)
        function, _ = names(parted.run)
        pack = emit_pack(parted.pack)
        for spelling, source in _spelled(parted.run, False):
            how = form.described(parted.how, spelling_name(spelling, parted.run))
            yield CandidateSource(
                how, form.number, to_json(parted.run), merged(pack, source), function, form.verdict,
                beforehand,
            )  # fmt: skip


def _with_kernels(
    form: _VerifiedRewrite, kernel: KernelSource, place: SchedulePoint
) -> CandidateSource:
    before = Prepacking(kernel.positions, kernel.pack, kernel.types) if kernel.positions else None
    return CandidateSource(
        form.described(kernel.how), form.number, to_json(form.program), kernel.source,
        kernel.function, form.verdict, before, place, schedule=kernel.schedule,
    )  # fmt: skip


def _beforehand(packing: PackedProgram) -> Prepacking:
    types = array_types(packing.run)[-len(packing.pack.outputs) :]
    return Prepacking(packing.positions, names(packing.pack)[0], types)


def _spelled(program: Program, plain_first: bool) -> Iterator[tuple[Spelling, str]]:
    """Each text once."""
    order = list(spellings(program))
    if plain_first:
        order.sort(key=lambda spelling: spelling != Spelling())
    seen: set[str] = set()
    for spelling in order:
        source = emit(program, spelling)
        if source not in seen:
            seen.add(source)
            yield spelling, source


def _by_turns(ways: list[list[CandidateSource]], most: int) -> list[CandidateSource]:
    """The first of each list, then the second of each, as far as there is room; each source once.

    So a form with many spellings does not keep others out.
    """
    chosen: dict[str, CandidateSource] = {}
    for turn in range(max(map(len, ways), default=0)):
        for way in ways:
            if turn < len(way) and len(chosen) < most:
                chosen.setdefault(way[turn].source, way[turn])
    return list(chosen.values())
