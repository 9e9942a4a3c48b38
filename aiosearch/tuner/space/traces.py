"""Traces: what was decided at which site, as a value that can be stored, compared and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ..errors import TunerError
from ..types import Pytree
from .sites import AnySite, ForkSite, Value, as_value


class Requirement(Struct, frozen=True):
    """What a space demanded of some sites when it was run, and held."""

    why: str
    reads: tuple[str, ...] = ()


class Trace(Struct, frozen=True, dict=True):
    """One point of a space: its sites in the order they were drawn, and their values by name.

    Two traces are the same point where their decisions are equal: `key` says so, whatever the sites
    could have been. Names, not positions, tie a decision to its site, so a trace survives an edit
    of the program that drew it.
    """

    sites: tuple[AnySite, ...]
    decisions: dict[str, Value]
    requirements: tuple[Requirement, ...] = ()
    derived: dict[str, float] = field(default_factory=dict)
    """Numbers that the program computed of its decisions, for a cost model."""

    @property
    def key(self) -> str:
        """Equal for the same point, on every machine and in every process."""
        return point_key(self.decisions)

    @property
    def digest(self) -> str:
        """Equal for the same trace: the same point, drawn from the same sites."""
        return _digest({"sites": self.sites, "decisions": self.decisions})

    @property
    def sketch(self) -> tuple[Value, ...]:
        """The branches taken at forks."""
        return tuple(self.decisions[site.name] for site in self.sites if isinstance(site, ForkSite))

    @property
    def ranks(self) -> tuple[tuple[int, ...], ...]:
        """Where each decision stands among its site's members: the order that settles ties."""
        return tuple(site.order(self.decisions[site.name]) for site in self.sites)

    @cached_property
    def positions(self) -> dict[str, tuple[float, ...]]:
        """Where each decision lies among its site's members, from 0 to 1; empty without order."""
        return {site.name: site.positions(self.decisions[site.name]) for site in self.sites}

    def site(self, name: str) -> AnySite | None:
        """The site of a name, if the trace has it."""
        return next((site for site in self.sites if site.name == name), None)

    def numbers(self) -> dict[str, float]:
        """All that a cost model sees of it, by name; nothing is lowered or compiled for that."""
        numbers = {
            label: number
            for site in self.sites
            for label, number in site.numbers(self.decisions[site.name])
        }
        return numbers | {f"derived.{name}": value for name, value in self.derived.items()}

    def distance(self, reference: Trace) -> int:
        """How many sites differ."""
        names = self.decisions.keys() | reference.decisions.keys()
        absent = object()
        return sum(
            self.decisions.get(name, absent) != reference.decisions.get(name, absent)
            for name in names
        )

    def as_python(self) -> str:
        """A program of the one point, which gives an equal trace where it is run as a space.

        >>> print(Trace((), {}).as_python())
        def schedule(s):
            pass
        """
        lines = [f"    {site.call(self.decisions[site.name])}" for site in self.sites]
        lines += [
            f"    # requires: {held.why}" + f" (reads {', '.join(held.reads)})" * bool(held.reads)
            for held in self.requirements
        ]
        body = lines if self.sites else [*lines, "    pass"]
        return "\n".join(["def schedule(s):", *body])

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes | str) -> Trace:
        """Reads what `to_json` wrote; raises TunerError for anything else."""
        try:
            return _with_tuples(msgspec.json.decode(text, type=cls))
        except msgspec.DecodeError as error:
            raise TunerError(f"this is no trace: {error}") from None


def point_key(decisions: Mapping[str, Value]) -> str:
    """The key of a point: of its decisions by name, in whatever order they were drawn."""
    return _digest(dict(sorted(decisions.items())))


def _with_tuples(trace: Trace) -> Trace:
    """JSON has lists alone, and a tile is a tuple."""
    sites = []
    for site in trace.sites:
        fields = {name: as_value(getattr(site, name)) for name in site.__struct_fields__}
        sites.append(replace(site, **fields))
    decisions = {name: as_value(value) for name, value in trace.decisions.items()}
    return replace(trace, sites=tuple(sites), decisions=decisions)


def _digest(value: Pytree) -> str:
    return blake2b(msgspec.json.encode(value), digest_size=8, person=b"aiosearch-trace").hexdigest()
