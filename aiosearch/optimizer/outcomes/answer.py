"""`Answer` and `Key`: an optimized program, the question that it answers, and the canonical digest
of a program.

An answer is found again by an equal `Key`, in another process and years later: so a key has the
device, the versions of jax, and all settings that a program depends on, and a program is named by
what it computes, whatever its name and its inputs' names. The fields of `Key`, `Answer`, `Packing`
and `Timings` are the keys of maps on disk.
"""

from __future__ import annotations

import ast
import hashlib
import re
import time
from collections.abc import Sequence
from functools import cached_property

import msgspec
from msgspec import Struct

from ...measure.ratios import LOUD
from ...tensor import Program, Term
from ..candidates.jax_source import module, renamed, with_parameters
from ..effort import UNFINISHED
from .evidence import Evidence
from .plain_fallback import HELPER, fallback

SCHEMA = 10
"""Goes up when answers that were found before are not to be used any more."""


class Key(Struct, frozen=True):
    """What an answer is an answer to; only an equal question gets it."""

    program: str
    """The `canonical_digest` of the program."""
    types: tuple[str, ...]
    """The types of the inputs, such as `f32[16, 4096]`."""
    device: str
    """The kind of device, such as `cpu: AMD EPYC, 2 cores`."""
    jax: str
    jaxlib: str
    strict: bool = False
    """Whether NaN and infinity had to stay."""
    constant: tuple[int, ...] = ()
    """Positions of the inputs that stay the same from call to call."""
    settings: tuple[str, ...] = ()
    """Settings of jax and XLA that are not the usual ones, and that a program depends on."""
    schema: int = SCHEMA

    @property
    def inputs(self) -> str:
        """The types of the inputs, in words: `f32[16, 4096], f32[4096] constant`."""
        texts = (
            f"{type_text} constant" if at in self.constant else type_text
            for at, type_text in enumerate(self.types)
        )
        return ", ".join(texts)

    @property
    def terms(self) -> str:
        """What was asked for beyond the usual, in words: `strict`, or plain JAX alone."""
        return ", ".join([*(["strict"] if self.strict else []), *self.settings])

    @property
    def digest(self) -> bytes:
        """16 bytes that name the question, as the results store has them."""
        return hashlib.blake2b(msgspec.msgpack.encode(self), digest_size=16).digest()


class Packing(Struct, frozen=True):
    """Which functions of a source make arrays beforehand, and compute with them."""

    positions: tuple[int, ...]
    """Positions of the inputs that they are made of."""
    pack: str
    """Takes the inputs at `positions`, and gives a tuple of arrays."""
    run: str
    """Takes the other inputs, then what was packed."""


class Timings(Struct, frozen=True):
    """Seconds of a call, by medians of interleaved rounds."""

    original: float
    plain: float
    """Seconds of the best plain JAX that is verified, rewritten or not."""
    answer: float
    noise: float
    """The ratio that the original reached against itself."""


class Answer(Struct, frozen=True, dict=True):
    """A program's fastest verified source, or its original where nothing faster was found."""

    key: Key
    name: str
    function: str
    """The function in `source` that takes all inputs as they are."""
    source: str
    """A module's text that stands alone; empty for a function as a whole."""
    verdict: tuple[str, ...]
    """What is known of it and how, a line each."""
    timings: Timings
    faster: bool
    """Whether the source is measured faster than the original."""
    effort: str
    """How much was spent to find it."""
    evidence: Evidence = Evidence()
    """All else that the result states."""
    made: float = msgspec.field(default_factory=time.time)
    """When, in seconds since 1970."""
    packing: Packing | None = None
    """What is faster yet, as long as the constant inputs are the same arrays."""
    guesses: str = ""
    """Candidates that noise may have hidden to be faster, or that won under much noise, as
    `race.selection` writes them: they are raced again by a later call, and nothing is searched."""
    others: tuple[str, ...] = ()
    """Further functions that asked the same, by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names that it goes by, first that of the function that it was found for."""
        return (self.name, *self.others)

    def also(self, *names: str) -> Answer:
        """The answer, which goes by these names too."""
        new = [name for name in dict.fromkeys(names) if name not in self.names]
        return msgspec.structs.replace(self, others=(*self.others, *new)) if new else self

    @cached_property
    def id(self) -> str:
        """What a user calls it: the digits of `Key.digest`."""
        return self.key.digest.hex()

    @property
    def is_unfinished(self) -> bool:
        """Whether a search has found it that was ended, and that the next call goes on with."""
        return self.effort == UNFINISHED

    @property
    def speedup(self) -> float:
        """What is claimed: over the original as it is, by the race that confirmed it.

        It is the lower end of the interval, so that who measures again mostly finds more: who won
        was chosen for its times, of which a part is luck. An answer that has no interval, as it was
        stored before there were any, claims its median.
        """
        between = self.evidence.between
        return self.median_speedup if between is None or not self.faster else between[0]

    @property
    def median_speedup(self) -> float:
        """The middle of the interval whose lower end is `speedup`."""
        ratio = self.timings.original / self.timings.answer
        return ratio if self.evidence.speedup is None else self.evidence.speedup

    @property
    def uncertain(self) -> bool:
        """Whether the original differed from itself by so much that a gain may be chance; it is
        measured again on a quieter machine."""
        return self.timings.noise - 1 > LOUD

    @property
    def in_doubt(self) -> bool:
        """Whether noise may have hidden something that is faster."""
        return bool(self.guesses) and not self.faster

    @property
    def has_kernels(self) -> bool:
        """Whether its source runs kernels of ours, which XLA fuses with nothing."""
        return "carried(" in self.source or "pl.pallas_call" in self.source

    @property
    def date(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.made))

    @property
    def file_name(self) -> str:
        """A module's name that tells answers apart: `rms_norm_3fa2b1c0.py`."""
        return f"{re.sub(r'[^0-9A-Za-z_]', '_', self.name)}_{self.id[:8]}.py"

    @property
    def known(self) -> str:
        """How it is verified, in a line; empty where it is the original."""
        return self.verdict[0] if self.faster and self.verdict else ""

    def __repr__(self) -> str:
        """What tells it from others: its text and its facts are pages."""
        gain = f"{self.speedup:.2f} times as fast" if self.faster else "nothing faster"
        verification = f"; {self.known}" if self.known else ""
        return f"<answer {self.id[:8]} for {self.name}: {gain}{verification}>"

    def text(self) -> str:
        """The source as a module that runs everywhere, below comments that say what it is."""
        source = self.source.strip()
        if plain := self.fallback():
            functions = source[source.index("def ") :]
            source = module(f"{HELPER}\n\n{functions}\n\n\n{plain}")
        return f"{self.comments()}\n\n{source}\n"

    def fallback(self) -> str:
        """Plain JAX for wherever kernels do not run; empty where there are none."""
        program = self.evidence.program
        if program is None:
            return ""
        return fallback(self.source, self.function, program)

    def comments(self) -> str:
        """What it is, as Python's comments."""
        head = [
            f"{self.name}({self.key.inputs}) on {self.key.device}",
            f"found {self.date} with jax {self.key.jax}, jaxlib {self.key.jaxlib},"
            f" effort {self.effort}",
            *([f"also the answer for {', '.join(self.others)}"] if self.others else []),
            *([f"asked for: {self.key.terms}"] if self.key.terms else []),
            *self._timed(),
            *self._used(),
            *self._needed(),
            *self.verdict,
        ]
        lines = [line for text in head for line in text.splitlines()]
        return "\n".join(f"# {line}".rstrip() for line in lines)

    def renamed(self, name: str) -> Answer:
        """The answer by another name, which its functions have too, and what they call."""
        new_names, packing = {self.function: name}, self.packing
        if packing is not None:
            new_names |= {packing.pack: f"{name}_pack", packing.run: f"{name}_packed"}
            packing = Packing(packing.positions, new_names[packing.pack], new_names[packing.run])
        source = renamed(self.source, new_names, self.function, name)
        return msgspec.structs.replace(
            self, name=name, function=name, source=source, packing=packing
        )

    def with_parameters(self, names: Sequence[str]) -> Answer:
        """The answer, whose functions have these names for what they take."""
        source, packing = with_parameters(self.source, self.function, names), self.packing
        if packing is not None:
            constants = [names[at] for at in packing.positions]
            arguments = [name for at, name in enumerate(names) if at not in packing.positions]
            source = with_parameters(source, packing.pack, constants)
            source = with_parameters(source, packing.run, arguments)
        return msgspec.structs.replace(self, source=source)

    def _used(self) -> list[str]:
        """How the functions go together, where something is made beforehand."""
        packing = self.packing
        if packing is None:
            return []
        names = _parameters(self.source, self.function)
        constants = ", ".join(names[at] for at in packing.positions)
        arguments = [name for at, name in enumerate(names) if at not in packing.positions]
        return [
            f"as long as {constants} stay the same: packed = {packing.pack}({constants}),"
            f" which takes {(self.evidence.packed_bytes or 0) / 1e6:.3g} MB",
            f"then {packing.run}({', '.join([*arguments, '*packed'])}) is the fastest,"
            f" and {self.function}({', '.join(names)}) otherwise",
        ]

    def _needed(self) -> list[str]:
        """What has to be there where machine code is to run."""
        if "carried(" not in self.source:
            return []
        from ...codegen.native import embedded_programs  # needs LLVM's library

        machines = dict.fromkeys(
            program.machine.name for _, program in embedded_programs(self.source)
        )
        return [
            f"machine code for {' and '.join(machines)}, which `aiosearch explain` shows: it runs",
            "where aiosearch is installed, on processors that have what that one has, for inputs",
            "of these shapes; "
            + ("else, and for derivatives, plain JAX does" if self.fallback() else "not elsewhere"),
        ]

    def _timed(self) -> list[str]:
        timings = self.timings
        ways = {
            "original": timings.original,
            "best plain JAX": timings.plain,
            "this": timings.answer,
        }
        text = ", ".join(f"{way} {seconds * 1e6:.4g} us" for way, seconds in ways.items())
        noise = f"{text}; the original against itself {timings.noise:.3g}x"
        return [noise if self.faster else f"{noise}; nothing faster was found"]


def _parameters(source: str, function: str) -> list[str]:
    """What a function's parameters are called."""
    definitions = [
        definition
        for definition in ast.parse(source).body
        if isinstance(definition, ast.FunctionDef)
    ]
    (named,) = (definition for definition in definitions if definition.name == function)
    return [argument.arg for argument in named.args.args]


def canonical_digest(program: Program) -> str:
    """32 hexadecimal digits, equal in every process.

    Programs share them when they apply equal operators to inputs of equal types in the same order.
    What happens to inputs that no output depends on does not matter.
    """
    numbers: dict[Term, int] = {}
    digest = hashlib.blake2b(digest_size=16, person=b"aiosearch-prog")
    # Terms are numbered in order of appearance: names of inputs do not enter.
    for term in program.inputs:
        digest.update(f"{term.type}\n".encode())
        numbers[term] = len(numbers)
    for term in program.terms():
        if term not in numbers:
            operands = [numbers[argument] for argument in term.arguments]
            line = f"{term.operator.name} {term.type} {term.parameters!r} {operands}\n"
            digest.update(line.encode())
            numbers[term] = len(numbers)
    digest.update(repr([numbers[output] for output in program.outputs]).encode())
    return digest.hexdigest()
