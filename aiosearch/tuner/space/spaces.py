"""Spaces: programs that draw values at named sites, and what can be done with all their points.

A space is a Python function. It is called with a `Sampler`, draws at sites by name, and says with
`require` what must hold of what it drew:

    def space(s, x):
        rows = s.tile("rows", x.shape[0], parts=2)
        stages = s.integer("stages", 1, 4)
        s.require(lambda rows, stages: rows[1] * stages <= 512, "the stages fit in shared memory")

The same function answers every question about the space. To sample, mutate, cross or replay it is
run again with another rule for what each site gives, so that sites may depend on earlier ones in
any way that Python can say. Invariant: a `Trace` that comes from here was given by one whole run in
which every requirement held; there is no other way to make one.
"""

from __future__ import annotations

import inspect
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeAlias, TypeVar

from ...arguments import nearest
from ..errors import RequirementFailed, SpaceError, TunerError
from ..types import Function, Pytree
from .hardware import GENERIC, Hardware
from .sites import (
    AnySite,
    CategoricalSite,
    ForkSite,
    IntegerSite,
    LocationSite,
    PermutationSite,
    SizeSite,
    TileSite,
    Value,
    as_value,
    is_plain,
    plain_value,
)
from .traces import Requirement, Trace

Decide: TypeAlias = Callable[[AnySite], Value]
"""Gives the value of a site that the program has come to."""
Retry: TypeAlias = Callable[[RequirementFailed, Sequence[str], int], bool]
"""Whether a part of the program runs again: it is given what failed, the names of the sites that
the part drew, and how often the part has failed."""
ResultT = TypeVar("ResultT")

REPAIRS = 48
"""How often the sites that a requirement reads are drawn again before all are."""
RESTARTS = 64
PART_RESTARTS = 32
"""How often a part of a program is drawn anew before the point is given up."""
_FREE = object()


class Sampler:
    """What a program of a space is called with: one run of it, and what was decided so far."""

    def __init__(
        self, decide: Decide, hardware: Hardware = GENERIC, retry: Retry | None = None
    ) -> None:
        self.hardware = hardware
        """What the schedule is for, as data: vector width, shared memory, matrix units."""
        self.sites: list[AnySite] = []
        self.decisions: dict[str, Value] = {}
        self.requirements: list[Requirement] = []
        self.derived: dict[str, float] = {}
        self._decide = decide
        self._retry = retry or (lambda failed, names, failures: False)
        self.unread: dict[str, str] = {}
        """Names that a requirement reads and that were not drawn before it, each with what the
        requirement protects."""

    def categorical(
        self,
        name: str,
        values: Sequence[Value],
        *,
        probabilities: Sequence[float] | None = None,
        decision: Value = _FREE,
    ) -> Pytree:
        """Draws one of `values`; `decision` holds it to one of them."""
        odds = None if probabilities is None else tuple(map(float, probabilities))
        options = tuple(map(plain_value, values))
        if not options:
            raise SpaceError(f"site {name!r} has no values to draw from")
        if strange := [value for value in options if not is_plain(value)]:
            raise SpaceError(
                f"site {name!r} offers {strange[0]!r}, which a table cannot hold: offer numbers,"
                " texts, truth values or tuples of them, and look up in the function what they name"
            )
        if odds is not None and len(odds) != len(options):
            raise SpaceError(f"site {name!r} has {len(options)} values and {len(odds)} odds")
        return self._at(CategoricalSite(name=name, values=options, probabilities=odds), decision)

    def integer(
        self, name: str, low: int, high: int, *, step: int = 1, base: int = 0,
        decision: Value = _FREE,
    ) -> int:  # fmt: skip
        """Draws a whole number of a range, both ends included; with `base=2` a power of two."""
        site = IntegerSite(name=name, low=int(low), high=int(high), step=step, base=base)
        if step < 1 or base < 0 or base == 1 or not site.size:
            raise SpaceError(f"site {name!r}: no number from {low} to {high} by step or base")
        return int(self._at(site, decision))

    def size(
        self,
        name: str,
        extent: int,
        *,
        itemsize: int = 4,
        most: int = 0,
        lanes: int = 0,
        units: int = 0,
        decision: Value = _FREE,
    ) -> int:
        """Draws how much of an extent is done at once: of sizes that follow from the extent, the
        vectors of elements of `itemsize` bytes, and the units of the hardware; `most` is the
        largest. `lanes` and `units` take the place of what the hardware has.
        """
        if int(extent) < 1 or most < 0:
            raise SpaceError(f"site {name!r}: no size up to {most or extent} is of {extent}")
        site = SizeSite(
            name=name,
            extent=int(extent),
            lanes=lanes or self.hardware.lanes_of(itemsize),
            units=units or max(1, self.hardware.units),
            most=most,
        )
        return int(self._at(site, decision))

    def tile(
        self,
        name: str,
        extent: int,
        *,
        parts: int = 2,
        most_inner: int = 0,
        padded: bool = False,
        decision: Value = _FREE,
    ) -> tuple[int, ...]:
        """Draws how a loop is cut: `parts` factors, the outermost first."""
        if int(extent) < 1 or parts < 1:
            raise SpaceError(f"site {name!r}: an extent of {extent} cannot be cut into {parts}")
        site = TileSite(
            name=name, extent=int(extent), parts=parts, most_inner=most_inner, padded=padded
        )
        return tuple(self._at(site, decision))

    def location(self, name: str, places: Sequence[str], *, decision: Value = _FREE) -> str:
        """Draws where something is computed; `places` go from the outermost inwards."""
        if not places:
            raise SpaceError(f"site {name!r} has no legal place")
        return str(self._at(LocationSite(name=name, places=tuple(places)), decision))

    def permutation(
        self, name: str, items: Sequence[str], *, decision: Value = _FREE
    ) -> tuple[str, ...]:
        """Draws an order."""
        return tuple(self._at(PermutationSite(name=name, items=tuple(items)), decision))

    def fork(self, name: str, branches: Sequence[str], *, decision: Value = _FREE) -> str:
        """Draws which program goes on from here: each branch is a sketch."""
        if not branches:
            raise SpaceError(f"fork {name!r} has no branches")
        return str(self._at(ForkSite(name=name, branches=tuple(branches)), decision))

    def require(
        self, condition: bool | Callable[..., bool], why: str, *, reads: Sequence[str] = ()
    ) -> None:
        """Leaves the point where a condition does not hold; `why` says what it protects.

        A function is called with the decisions that its parameters name, and those are what it
        reads. What is read tells the search which sites to draw again. What is named and was not
        drawn in this run, as in another branch, makes it hold.
        """
        if callable(condition):
            reads = tuple(inspect.signature(condition).parameters)
            missing = [name for name in reads if name not in self.decisions]
            if missing:
                self.unread |= dict.fromkeys(missing, why)
                return
            condition = condition(*(self.decisions[name] for name in reads))
        if not condition:
            raise RequirementFailed(why, reads)
        self.requirements.append(Requirement(why, tuple(reads)))

    def part(self, draw: Callable[[], ResultT]) -> ResultT:
        """Runs a part of the program whose requirements read what it draws itself, as the schedule
        of one of several kernels, and gives what that gives.

        While a point is looked for, a part that breaks a requirement is drawn again alone. Else a
        point of ten kernels, each of which fits once in eight draws, would be found once in 8^10.
        """
        sites, requirements = len(self.sites), len(self.requirements)
        derived, failures = dict(self.derived), 0
        while True:
            try:
                return draw()
            except RequirementFailed as failed:
                failures += 1
                names = [site.name for site in self.sites[sites:]]
                if not self._retry(failed, names, failures):
                    raise
            for name in names:
                del self.decisions[name]
            del self.sites[sites:], self.requirements[requirements:]
            self.derived = dict(derived)

    def derive(self, name: str, value: float) -> None:
        """Gives the cost model a number that the decisions lead to, such as bytes of a tile."""
        self.derived[name] = float(value)

    def trace(self) -> Trace:
        """What was drawn so far."""
        return Trace(
            tuple(self.sites), dict(self.decisions), tuple(self.requirements), dict(self.derived)
        )

    def _at(self, site: AnySite, decision: Value) -> Value:
        name = site.name
        if name in self.decisions:
            self._require_same(site)
            return self.decisions[name]
        if name in self.unread:
            raise SpaceError(
                f"a requirement reads site {name!r} before it is drawn, and would hold at every"
                f" point: move it below ({self.unread[name]})"
            )
        value = self._decide(site) if decision is _FREE else as_value(decision)
        if not site.contains(value):
            raise SpaceError(f"site {name!r} is held to {value!r}, which is none of its values")
        self.sites.append(site)
        self.decisions[name] = value
        return value

    def _require_same(self, site: AnySite) -> None:
        """A name is a place: drawn twice it gives the same value, so it must mean the same."""
        if site not in self.sites:
            raise SpaceError(f"two sites are called {site.name!r}; give each a name of its own")


@dataclass(frozen=True)
class SearchSpace:
    """A program of a space, bound to arguments: all its points."""

    program: Function
    arguments: tuple[Pytree, ...] = ()
    hardware: Hardware = GENERIC
    defaults: Mapping[str, Value] = field(default_factory=dict)
    """What the default point decides, by site; a site without has its first value there."""

    def run(self, decide: Decide, retry: Retry | None = None) -> tuple[Trace, Pytree]:
        """Runs the program by a rule; gives the trace and what the program returned.

        Raises RequirementFailed where the point is not of the space.
        """
        sampler = Sampler(decide, self.hardware, retry)
        try:
            result = self.program(sampler, *self.arguments)
        except (TunerError, KeyError, _Undecided):  # of a rule that has no value for a site, too
            raise
        except Exception as error:
            raise _raised(error) from error
        return sampler.trace(), result

    def sample(self, random: Random) -> Trace:
        """Draws a point; raises SpaceError where none of very many keeps the requirements."""
        failures: Counter[str] = Counter()
        for _ in range(RESTARTS):
            trace = self._repaired({}, random, REPAIRS, failures, PART_RESTARTS)
            if trace is not None:
                return trace
        worst = ", ".join(f"{why} ({count} times)" for why, count in failures.most_common(3))
        raise SpaceError(f"no point of the space was found that keeps its requirements: {worst}")

    def default(self, random: Random | None = None) -> Trace:
        """The point that stands for an untuned program: defaults where they fit, first values else.

        Where that one breaks a requirement, a near one that does not.
        """
        decisions = dict(self.defaults)

        def decide(site: AnySite) -> Value:
            value = site.repair(as_value(decisions[site.name])) if site.name in decisions else None
            return site.first() if value is None else value

        sampler = Sampler(decide, self.hardware)
        try:
            self.program(sampler, *self.arguments)
        except RequirementFailed:
            random = random or Random(0)
            near = next(self._near(decide, random), None)
            return self.sample(random) if near is None else near
        except TunerError:
            raise
        except Exception as error:
            raise _raised(error) from error
        if sampler.unread:
            self._require_drawn(sampler.unread)
        return sampler.trace()

    def _require_drawn(self, unread: Mapping[str, str]) -> None:
        """Raises TunerError where a requirement reads what no branch ever draws, as a typing error
        would have it: it would hold at every point.
        """
        drawn = {name for seed in range(16) for name in self.sample(Random(seed)).decisions}
        for name, why in unread.items():
            if name not in drawn:
                raise TunerError(
                    f"a requirement ({why}) reads {name!r}, and no site is called so"
                    f"{nearest(name, drawn)}"
                )

    def replay(self, decisions: Mapping[str, Value]) -> Trace:
        """The point of exactly these decisions.

        Raises RequirementFailed where it breaks one, and SpaceError where a site's value is missing
        or none of its members. Decisions of sites that are not reached are left out.
        """

        def decide(site: AnySite) -> Value:
            if site.name not in decisions:
                close = nearest(site.name, decisions)
                raise SpaceError(f"nothing is decided for site {site.name!r}{close}")
            value = as_value(decisions[site.name])
            if not site.contains(value):
                raise SpaceError(f"site {site.name!r} cannot be {value!r}")
            return value

        return self.run(decide)[0]

    def build(self, trace: Trace) -> Pytree:
        """What the program returns at a point."""
        return self.run(lambda site: trace.decisions[site.name])[1]

    def contains(self, decisions: Mapping[str, Value]) -> bool:
        """Whether these decisions are a point of it."""
        try:
            self.replay(decisions)
        except (RequirementFailed, SpaceError):
            return False
        return True

    def repair(self, trace: Trace, random: Random) -> Trace | None:
        """The point nearest to one of another shape, or of the program before an edit.

        Decisions that fit stay; others become the nearest that fit; new sites are drawn, and what
        no site asks for is dropped. Nothing where no near point keeps the requirements.
        """
        previous = {site.name: site for site in trace.sites}
        fitted: dict[str, Value] = {}

        def decide(site: AnySite) -> Value:
            value = None
            if site.name in trace.decisions:
                value = site.repair(as_value(trace.decisions[site.name]), previous.get(site.name))
            fitted[site.name] = site.draw(random) if value is None else value
            return fitted[site.name]

        try:
            return self.run(decide)[0]
        except RequirementFailed:
            return self._repaired(fitted, random, REPAIRS)

    def mutate(self, trace: Trace, random: Random) -> Trace | None:
        """A point that differs at one site and, where a requirement asks, at what that reads."""
        open_sites = [site for site in trace.sites if site.size > 1]
        if not open_sites:
            return None
        site = random.choice(open_sites)
        moved = site.mutate(trace.decisions[site.name], random)
        decisions = {**trace.decisions, site.name: moved}
        return self._repaired(decisions, random, 8, held=site.name)

    def cross(self, first: Trace, second: Trace, random: Random) -> Trace | None:
        """A point that has each decision from one of two others."""
        names = first.decisions.keys() | second.decisions.keys()
        decisions = {}
        for name in sorted(names):
            # A site that only one parent has, in a branch of its own, comes from that one.
            parent = random.choice((first, second))
            donor = parent if name in parent.decisions else first if parent is second else second
            decisions[name] = donor.decisions[name]
        return self._repaired(decisions, random, 8)

    def points(self) -> Iterator[Trace]:
        """All points, in the order that settles ties; sites are decided from the first on.

        The program runs once for each beginning of a point. A beginning that breaks a requirement
        is left with all that would follow: a requirement prunes the more, the earlier it stands.
        """
        for trace, _ in self.leaves():
            if trace is not None:
                yield trace

    def leaves(self) -> Iterator[tuple[Trace | None, float]]:
        """The ends of all beginnings, in that order: points, and None where a requirement fails.

        Beside each its share of the tree, where the values of a site share alike; all add up to 1.
        """
        return self._following({}, 1.0)

    def without_dead(self, trace: Trace) -> Trace:
        """The same point, less sites on whose value nothing depends.

        A site is dead where each other value of it leaves all other sites, what is derived and what
        the program returns as they are. Of large sites sixteen values are tried.
        """
        alive, result = self.run(lambda site: trace.decisions[site.name])
        dead = {
            site.name
            for site in alive.sites
            if site.size > 1 and self._is_dead(site, alive, result)
        }
        return Trace(
            tuple(site for site in alive.sites if site.name not in dead),
            {name: value for name, value in alive.decisions.items() if name not in dead},
            alive.requirements,
            alive.derived,
        )

    def count(self, most: int) -> int:
        """How many points there are, counted up to `most`."""
        return sum(1 for _, _ in zip(self.points(), range(most), strict=False))

    def _is_dead(self, site: AnySite, trace: Trace, result: Pytree) -> bool:
        # What a program returns may hold what it drew, as a mapping of all parameters does; a value
        # that shows there is alive, and that is how the parameters of a kernel stay.
        alternatives = [value for value in site.members() if value != trace.decisions[site.name]]
        for value in alternatives[:16]:
            decisions = {**trace.decisions, site.name: value}
            try:
                moved, outcome = self.run(lambda place: decisions[place.name])  # noqa: B023
            except (KeyError, RequirementFailed):
                return False
            same = moved.sites == trace.sites and moved.derived == trace.derived
            if not same or outcome != result or result is None:
                return False
        return True

    def _following(
        self, decisions: Mapping[str, Value], share: float
    ) -> Iterator[tuple[Trace | None, float]]:
        def decide(site: AnySite) -> Value:
            if site.name not in decisions:
                raise _Undecided(site)
            return decisions[site.name]

        # The run stops at the first site that nothing is decided for: that site is the branching of
        # the tree of all points, and a requirement that fails before it cuts the branch off.
        try:
            trace, _ = self.run(decide)
        except _Undecided as undecided:
            site = undecided.site
            for value in site.members():
                yield from self._following({**decisions, site.name: value}, share / site.size)
        except RequirementFailed:
            yield None, share
        else:
            yield trace, share

    def _near(self, decide: Decide, random: Random) -> Iterator[Trace]:
        """Points reached by drawing again, of the default, only what requirements read."""
        decisions: dict[str, Value] = {}

        def noted(site: AnySite) -> Value:
            decisions[site.name] = decide(site)
            return decisions[site.name]

        try:
            self.run(noted)
        except RequirementFailed:
            trace = self._repaired(decisions, random, REPAIRS)
            if trace is not None:
                yield trace

    def _repaired(
        self,
        decisions: Mapping[str, Value],
        random: Random,
        tries: int,
        failures: Counter[str] | None = None,
        restarts: int = 1,
        held: str = "",
    ) -> Trace | None:
        """Runs with decisions as they are where they fit, and draws the others.

        Where a requirement fails, one of the sites it reads is drawn again, never the `held` one;
        where it names none, all are drawn anew. A part of the program that fails so often is drawn
        anew as a whole, `restarts` times in all.
        """
        repair = _Repair(dict(decisions), random, tries, restarts, held, failures)
        for _ in range(tries):
            try:
                return self.run(repair.decide, repair.retry)[0]
            except RequirementFailed as failed:
                if repair.exhausted or not repair.forget(failed, list(repair.current)):
                    return None
        return None


@dataclass
class _Repair:
    """The decisions of a point that is looked for, of which those are drawn that are not there.

    What a failed requirement reads is forgotten, one site at a time, and drawn again in the next
    run; all others keep what they have, so that the point stays near to where it was.
    """

    current: dict[str, Value]
    random: Random
    tries: int
    restarts: int
    held: str = ""
    """A site that keeps what it has."""
    failures: Counter[str] | None = None
    exhausted: bool = False
    """Whether a part of the program was drawn as often as it may be."""

    def decide(self, site: AnySite) -> Value:
        value = site.repair(self.current[site.name]) if site.name in self.current else None
        self.current[site.name] = site.draw(self.random) if value is None else value
        return self.current[site.name]

    def retry(self, failed: RequirementFailed, names: Sequence[str], failures: int) -> bool:
        """Has a part drawn again, unless what failed is not its own or it failed too often."""
        if failed.reads and not set(failed.reads) & set(names):
            return False
        self.exhausted = failures >= self.tries * self.restarts
        if self.exhausted:
            return False
        if failures % self.tries == 0:
            failed = RequirementFailed(failed.why, ())
        return self.forget(failed, names)

    def forget(self, failed: RequirementFailed, names: Sequence[str]) -> bool:
        """Forgets a site among these that the requirement reads, or all of them where it reads
        none; False where that is not possible.
        """
        if self.failures is not None:
            self.failures[failed.why] += 1
        known = [name for name in names if name in self.current]
        movable = [name for name in failed.reads if name != self.held and name in known]
        if movable:
            del self.current[self.random.choice(movable)]
            return True
        if self.held:
            return False
        for name in known:
            del self.current[name]
        return True


class _Undecided(Exception):
    """The program has come to a site that nothing is decided for."""

    def __init__(self, site: AnySite) -> None:
        self.site = site
        super().__init__(site)


def _raised(error: Exception) -> TunerError:
    """What a program of the user's raised, which may be anything, with where in the user's own
    text that was.
    """
    ours = str(Path(__file__).parents[2])
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(ours)]
    place = f", at {theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""
    return TunerError(f"the space raised {type(error).__name__}: {error}{place}")
