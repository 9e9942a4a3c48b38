"""The orders in which pieces can run, put together wherever the same operators are done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .dependencies import Bits, Dependencies, lowest, numbers


class Part(NamedTuple):
    """A set of operators that may run as one."""

    members: Bits
    needs: Bits
    """What has to be done right before."""
    before: Bits
    """What has to be done at any time before."""
    weight: float
    """What it is taken to cost as long as nobody knows."""


def part(graph: Dependencies, members: Bits, weight: float) -> Part:
    needs = before = 0
    for number in numbers(members):
        needs |= graph.needs[number]
        before |= graph.before[number]
    return Part(members, needs & ~members, before & ~members, weight)


class Step(NamedTuple):
    """One part run after others."""

    start: int
    """The stage that it starts from."""
    part: int


@dataclass
class Schedules:
    """Stages, which are sets of operators that are done, and the steps that lead to each.

    The first stage is nothing, the last is everything; a step leads from an earlier to a later one.
    """

    steps: list[list[Step]] = field(default_factory=list)
    complete: bool = True
    """Whether every choice of parts that can run in some order is a way through."""


def schedules(parts: Sequence[Part], count: int, most_stages: int) -> Schedules:
    """The ways through all operators, over so many stages at most.

    Each count of operators done has its share of these; where there are more, those are kept that
    have wasted the least on their way. The last stage can be reached if each operator is a part.
    """
    return _Scheduling(parts, count, most_stages).found()


class _Scheduling:
    def __init__(self, parts: Sequence[Part], count: int, most_stages: int) -> None:
        self._parts = parts
        self._all = (1 << count) - 1
        self._most = max(1, most_stages // (count + 1))
        self._with: list[list[int]] = [[] for _ in range(count)]
        for number, one in enumerate(parts):
            for member in numbers(one.members):
                self._with[member].append(number)
        self._excess = _excesses(parts, count)
        self._levels: list[dict[Bits, float]] = [{} for _ in range(count + 1)]
        """By how much is done: the stages, and what the best way there has wasted."""
        self._steps: dict[Bits, list[Step]] = {}

    def found(self) -> Schedules:
        found = Schedules()
        self._levels[0][0] = 0.0
        for level in self._levels:
            stages = sorted(level, key=lambda done: (level[done], done))
            found.complete = found.complete and len(stages) <= self._most
            for done in stages[: self._most]:
                self._extend(done, level[done], len(found.steps))
                found.steps.append(self._steps.pop(done, []))
        return found

    def _extend(self, done: Bits, wasted: float, stage: int) -> None:
        for number in self._next(done):
            after = done | self._parts[number].members
            level = self._levels[after.bit_count()]
            level[after] = min(level.get(after, float("inf")), wasted + self._excess[number])
            self._steps.setdefault(after, []).append(Step(stage, number))

    def _next(self, done: Bits) -> Iterator[int]:
        """The parts that may run next: of each choice that has led here, one at least.

        Some part has the first operator that is left. Where that has to wait, it is for the part
        that has the first operator that it needs; that one may have to wait in its turn.
        """
        if done == self._all:
            return
        wanted, past = [lowest(~done)], done
        for operator in wanted:
            for number in self._with[operator]:
                members, needs, before, _ = self._parts[number]
                if members & past:
                    continue
                if not needs & ~done:
                    yield number
                elif (waits := lowest(before & ~done)) not in wanted:
                    wanted.append(waits)
            past |= 1 << operator


def _excesses(parts: Sequence[Part], count: int) -> list[float]:
    """What each part costs over the least that its operators cost in any part.

    The cost of a part is shared by its operators as their own parts would cost.
    """
    alone = [0.0] * count
    for one in parts:
        if one.members.bit_count() == 1:
            alone[lowest(one.members)] = one.weight
    shares = list(alone)
    for one in parts:
        total = sum(alone[number] for number in numbers(one.members))
        for number in numbers(one.members) if total else ():
            shares[number] = min(shares[number], one.weight * alone[number] / total)
    return [one.weight - sum(shares[number] for number in numbers(one.members)) for one in parts]
