"""Functions whose keyword parameters are the sites of a space, and what a call of one looks up.

A call never tunes. It finds the record of its kind of arguments, also from tracers inside `jit`,
`grad`, `vmap` and `shard_map`, where shapes and element types are all there is; where there is no
record it takes the nearest one that fits, or the default, and says so once.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

from ..arguments import nearest
from .errors import RequirementFailed, SpaceError, TableError, TunerError
from .kernels import KernelCall, is_array, kernel_name, resized, source_digest, type_of
from .records import RecordTable, TuningRecord
from .space.hardware import Hardware, this_hardware
from .space.spaces import Sampler, SearchSpace
from .space.traces import Trace
from .types import Configuration, Function, Options, Pytree

SEEDS = 4
"""As many records of similar calls are tried first."""

P = ParamSpec("P")
R = TypeVar("R")


class Tolerance:
    """How far from the reference an output may be, where the kernel's author says so."""

    def __init__(self, relative: float, absolute: float) -> None:
        self.relative = relative
        self.absolute = absolute


@dataclass(frozen=True)
class SizeRange:
    """Sizes that are only known when a kernel runs: one record serves all of them.

    SizeRange(1, 4096, ((0, 0), (2, 1))) is the first axis of the first argument, which is always as
    long as the second axis of the third.
    """

    low: int
    high: int
    places: tuple[tuple[int, int], ...]
    """Positions of arguments, each with one of its axes."""

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high or not self.places:
            raise TunerError(
                f"{self} is no range of sizes: it goes from 1 or more up, of some axis"
            )

    @property
    def probes(self) -> tuple[int, ...]:
        """Sizes that a kernel is checked at: both ends, and an odd one, where edges are ragged."""
        odd = (self.low + 2 * self.high) // 3 | 1
        return tuple(dict.fromkeys((self.low, min(odd, self.high), self.high)))


def tunable(
    space: Function,
    *,
    reference: Function | None = None,
    table: str | Path | None = None,
    name: str = "",
    hardware: Hardware | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    ranges: Sequence[SizeRange] = (),
) -> Callable[[Callable[P, R]], Tunable[P, R]]:
    """Makes a function tunable: its keyword parameters are what `space` draws.

    `space(s, *arguments)` is called with a `Sampler` and the types of the arguments. What it draws
    at a site goes to the parameter of the same name; where it returns a mapping, that is what goes
    to the parameters. `reference` computes the same, plainly: winners are held to it, and it is
    what runs where nothing beats it. Without one the function's own default point is the reference.
    `table` is the file of records; `rtol` and `atol` take the place of the bound that follows from
    the reference's own rounding errors. `ranges` are sizes that one record serves: what wins for
    the arguments that it is tuned on is checked at others of the range as well.

        def space(s, x):
            s.categorical("block", (64, 128, 256))
            s.require(lambda block: x.shape[0] % block == 0, "blocks divide the rows")

        @aiosearch.tunable(space, reference=plain)
        def scaled(x, *, block=64): ...
    """
    tolerance = None if rtol is None else Tolerance(rtol, atol)

    def decorate(function: Callable[P, R]) -> Tunable[P, R]:
        return Tunable(
            function, space, reference, RecordTable(table), name, hardware, tolerance, ranges
        )

    return decorate


class Tunable(Generic[P, R]):
    """A function with a space; called, it runs with the configuration that its table has."""

    def __init__(
        self,
        function: Callable[P, R],
        program: Function,
        reference: Function | None,
        table: RecordTable,
        name: str = "",
        hardware: Hardware | None = None,
        tolerance: Tolerance | None = None,
        ranges: Sequence[SizeRange] = (),
    ) -> None:
        functools.update_wrapper(self, function)
        self.original = function
        self.program = program
        self.reference = reference
        self.table = table
        self.name = name or kernel_name(function)
        self.hardware = hardware or this_hardware()
        self.tolerance = tolerance
        self.ranges = tuple(ranges)
        self._parameters = _parameters(function)
        self._found: dict[Pytree, TuningRecord | Options] = {}
        self._stamp: Pytree = None
        self._roles: dict[str, bool] = {}
        """Of keywords that callers gave: whether the space decides them."""
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        held = {name for name in kwargs if self._is_site(name, args, kwargs)}
        if held:  # the caller knows better, and of the rest the default is what it expects
            return self.original(*args, **kwargs)
        choice = self.choice(*args, **kwargs)
        if isinstance(choice, TuningRecord):
            if choice.winner == "reference" and self.reference is not None:
                return self.reference(*args, **kwargs)  # type: ignore[no-any-return]  # a user's function
            choice = choice.configuration
        options: Configuration = {**choice, **kwargs}
        return self.original(*args, **options)

    def __get__(self, instance: Pytree, owner: type | None = None) -> Pytree:
        """Binds as a method, as functions do."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<tunable {self.name}>"

    @property
    def source(self) -> str:
        """A digest of the text of the function and of its space."""
        return source_digest(self.original, self.program)

    def configuration(self, *args: Pytree, **kwargs: Pytree) -> Configuration:
        """The keyword arguments that a call like this one runs with."""
        choice = self.choice(*args, **kwargs)
        return dict(choice.configuration if isinstance(choice, TuningRecord) else choice)

    def choice(self, *args: Pytree, **kwargs: Pytree) -> TuningRecord | Options:
        """The record that serves such a call, or the default configuration where none does.

        Nothing is timed for it, and after the first such call nothing is computed.
        """
        call = KernelCall(args, kwargs)
        key = (call.text, _device())
        # One look at the file's status for each call, which traces once and then runs compiled.
        records = self.table.records
        with self._lock:
            if self._stamp is not records and self._stamp != records:
                self._found.clear()
                self._stamp = records
            if key not in self._found:
                self._found[key] = self._looked_up(call, key[1])
            return self._found[key]

    def key(self, call: KernelCall) -> tuple[str, ...]:
        """What tables call the arguments of a call: f32[1..4096,64] where a range serves it."""
        texts = list(call.text)
        for place, extents in self._ranged(call).items():
            argument = type_of(call.arguments[place])
            shape = [extents.get(axis, str(size)) for axis, size in enumerate(argument.shape)]
            texts[place] = f"{str(argument).partition('[')[0]}[{','.join(shape)}]"
        return tuple(texts)

    def recorded(self, call: KernelCall) -> TuningRecord | None:
        """The table's record of a call, on the device of this process."""
        return self.table.find(self.name, _device(), self.key(call))

    def probing_calls(self, call: KernelCall) -> list[KernelCall]:
        """Calls of other sizes that the record of this one would serve; one for each probe."""
        if not self._ranged(call):
            return []
        calls = []
        for number in range(3):
            arguments = list(call.arguments)
            for sizes in self.ranges:
                size = sizes.probes[min(number, len(sizes.probes) - 1)]
                for place, axis in sizes.places:
                    arguments[place] = resized(arguments[place], axis, size)
            calls.append(KernelCall(tuple(arguments), call.keywords))
        distinct = {probe.text: probe for probe in calls if probe.text != call.text}
        return list(distinct.values())

    def _ranged(self, call: KernelCall) -> dict[int, dict[int, str]]:
        """Of each argument the axes with a range, as text; nothing where one is outside of its."""
        ranged: dict[int, dict[int, str]] = {}
        for sizes in self.ranges:
            for place, axis in sizes.places:
                if place >= len(call.arguments) or not is_array(call.arguments[place]):
                    return {}
                shape = type_of(call.arguments[place]).shape
                if axis >= len(shape) or not sizes.low <= shape[axis] <= sizes.high:
                    return {}
                ranged.setdefault(place, {})[axis] = f"{sizes.low}..{sizes.high}"
        return ranged

    def search_space(self, call: KernelCall) -> SearchSpace:
        """The space of a kind of call, whose default point has the function's own defaults."""
        typed = call.typed()
        accepted = inspect.signature(self.program).parameters
        named = {name: value for name, value in typed.keywords.items() if name in accepted}
        program = functools.partial(_with_keywords, self.program, named)
        return SearchSpace(program, typed.arguments, self.hardware, self._defaults(call))

    def favourites(self, call: KernelCall, configurations: Sequence[Options] = ()) -> list[Trace]:
        """Points that were good elsewhere, with which a search begins and its last race is run:
        these configurations, and those of similar calls.

        What does not fit this call becomes the nearest that does.
        """
        space, random = self.search_space(call), Random(0)
        similar = self.table.similar(self.name, _device(), call.text)[:SEEDS]
        decisions = [*configurations, *(record.decisions for record in similar)]
        traces = [space.repair(Trace((), dict(values)), random) for values in decisions]
        return list({trace.key: trace for trace in traces if trace is not None}.values())

    def seeds(self, call: KernelCall) -> list[Trace]:
        """Points that are tried next, before anything was learned; none of a function whose space
        says nothing of them.
        """
        return []

    def keywords(self, space: SearchSpace, trace: Trace) -> Configuration:
        """The keyword arguments that a point stands for."""
        result = space.build(trace)
        drawn = trace.decisions if result is None else result
        if not isinstance(drawn, Mapping):
            raise SpaceError(
                f"the space of {self.name} returns {type(drawn).__name__}; it returns nothing, or a"
                " mapping from parameters to values"
            )
        if self._parameters is None:
            return dict(drawn)
        if result is not None and (unknown := set(drawn) - self._parameters):
            name = min(unknown)
            close = nearest(name, self._parameters)
            raise SpaceError(f"the space of {self.name} returns {name!r}: no such parameter{close}")
        configuration = {name: drawn[name] for name in drawn if name in self._parameters}
        if not configuration and drawn:
            close = nearest(next(iter(drawn)), self._parameters)
            raise SpaceError(
                f"no site of the space of {self.name} is called as one of its keyword parameters"
                f" {', '.join(sorted(self._parameters))}{close}"
            )
        return configuration

    def default(self, call: KernelCall) -> Trace:
        """The point that a call without a record runs."""
        return self.search_space(call).default(Random(0))

    def _is_site(self, name: str, args: tuple[Pytree, ...], kwargs: Options) -> bool:
        """Whether a keyword is one that the space decides, rather than an argument like others."""
        if name not in self._roles:
            accepted = inspect.signature(self.program).parameters
            plain = {key: value for key, value in kwargs.items() if key in accepted}
            space = self.search_space(KernelCall(args, plain))
            # A site of another branch than the default's shows in some sample.
            try:
                traces = [space.sample(Random(seed)) for seed in range(16)]
            except SpaceError:
                return False
            self._roles[name] = any(name in trace.decisions for trace in traces)
        return self._roles[name]

    def _defaults(self, call: KernelCall) -> Configuration:
        try:
            parameters = inspect.signature(self.original).parameters.values()
        except ValueError:
            return {}
        return {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.default is not parameter.empty and parameter.name not in call.keywords
        }

    def _looked_up(self, call: KernelCall, device: str) -> TuningRecord | Options:
        space = self.search_space(call)
        exact = self.table.find(self.name, device, self.key(call))
        # The record of a range may be of another size, at which its point may not be one.
        if exact is not None and (not self.ranges or space.contains(exact.decisions)):
            return exact
        fitted: list[Trace] = []

        def fits(record: TuningRecord) -> bool:
            try:
                fitted.append(space.replay(record.decisions))
            except (RequirementFailed, SpaceError):
                return False
            return True

        near = self.table.nearest(self.name, device, call.text, fits)
        if near is not None:
            where = "" if near.device == device else f" on {near.device}"
            self._say(
                f"{self.name} is not tuned for {', '.join(call.text)}, and runs as for"
                f" {', '.join(near.arguments)}{where}"
            )
            return self.keywords(space, fitted[-1])
        try:
            default = self.keywords(space, space.default(Random(0)))
        except TunerError as error:
            if self.reference is None:
                raise SpaceError(
                    f"{self.name} cannot run on {', '.join(call.text)}: {error}"
                ) from None
            self._say(f"{self.name} runs its reference on {', '.join(call.text)}: {error}")
            return TuningRecord(
                kernel=self.name, arguments=call.text, device=device, configuration={},
                decisions={}, winner="reference",
            )  # fmt: skip
        self._say(
            f"{self.name} is not tuned for {', '.join(call.text)}, and runs with its default:"
            f" {_shown(default)}; `await aiosearch.tune(...)` or `aiosearch tune` tunes it"
        )
        return default

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            warnings.warn(text, UntunedWarning, stacklevel=5)


AnyTunable: TypeAlias = Tunable[..., Any]
"""One of whatever arguments and result."""


class UntunedWarning(UserWarning):
    """A kernel runs without a record of its own."""


def frozen_record(kernel: AnyTunable, call: KernelCall) -> TuningRecord:
    """The record of a call; raises TableError where there is none, and times nothing."""
    record = kernel.recorded(call)
    if record is None:
        raise TableError(
            f"{kernel.table.path} has no record of {kernel.name} for {', '.join(call.text)} on"
            f" {_device()}; tune it there and commit the table"
        )
    return record


def device_name() -> str:
    """What the device is called that jax runs on by default."""
    return _device()


def versions() -> str:
    """Of what compiles kernels here, as records have it."""
    import jax

    return f"jax {jax.__version__}"


@functools.cache
def _device() -> str:
    import jax

    device = jax.devices()[0]
    if device.platform != "cpu":
        return str(device.device_kind)
    return f"{_processor()} x{this_hardware().units}"


def _processor() -> str:
    """The processor's own name, as jax calls every one of them `cpu`."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or this_hardware().name


def _parameters(function: Function) -> frozenset[str] | None:
    """The names that may be given by keyword; None where any may."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    kinds = inspect.Parameter
    if any(parameter.kind is kinds.VAR_KEYWORD for parameter in parameters):
        return None
    named = (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    return frozenset(parameter.name for parameter in parameters if parameter.kind in named)


def _with_keywords(
    program: Function, keywords: Options, sampler: Sampler, *arguments: Pytree
) -> Pytree:
    return program(sampler, *arguments, **keywords)


def _shown(configuration: Options) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in configuration.items()) or "no options"
