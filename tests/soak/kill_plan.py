"""What is done to a search in a chaos trial, drawn from the trial's own seed."""

from __future__ import annotations

from random import Random

from killable_problems import SUBJECTS
from msgspec import Struct

PLACES = {
    "batch write": "journal.batch",
    "before the snapshot's rename": "journal.rename",
    "after the snapshot's rename": "journal.rename",
    "verdict insert": "verdict.insert",
    "hand-out": "coordinator.handout",
    "give-back": "coordinator.giveback",
    "report": "coordinator.report",
}
"""Moments that have a fault point; the one before a rename is passed first, then the one after."""
GROUP, WORKER, SOLVER = "whole group, any moment", "one worker", "one z3 process"
CYCLE = (WORKER, SOLVER, GROUP, *PLACES, WORKER, GROUP, WORKER, GROUP)
"""What trials are about, by their number."""

PASSAGES = {
    "batch write": 30,
    "before the snapshot's rename": 4,
    "after the snapshot's rename": 4,
    "verdict insert": 25,
    "hand-out": 14,
    "give-back": 12,
    "report": 20,
}
"""About how often a search passes each, with several runs to die in."""
SUITED = {
    "verdict insert": ("questions",),
    SOLVER: ("questions",),
    "before the snapshot's rename": ("tree", "bounds"),
    "after the snapshot's rename": ("tree", "bounds"),
}
STRATEGIES = ("queue", "stealing")
RUNS = 4
"""Runs that something is done to, before the one that is left in peace."""
LIFE = 1.6
"""Seconds that a run takes, its start included."""
APART = 0.15
"""Least seconds between two kills of single processes; a killed worker is back after as much."""
MOST_KILLED = {WORKER: 3, SOLVER: 1}
"""In one run: a question that loses two z3 processes is rightly given up as unknown."""


class Kill(Struct, frozen=True):
    """A process, or all of them, to be killed.

    The seconds count from the kill before it, or from the moment when there is one to be killed.
    """

    kind: str
    seconds: float


class Mishap(Struct, frozen=True):
    """One run of a trial: how it searches, and what happens to it."""

    order: str
    strategy: str
    workers: int
    kind: str = ""
    place: str = ""
    """A fault point and the number of the passage to die in, or nothing."""
    kills: tuple[Kill, ...] = ()


class Plan(Struct, frozen=True):
    """One trial. The last run is left in peace."""

    number: int
    about: str
    subject: str
    runs: tuple[Mishap, ...]


def plan(seed: int, number: int) -> Plan:
    """Draws a trial: the same for the same seed and number."""
    random = Random(f"{seed}/{number}")
    about = CYCLE[number % len(CYCLE)]
    subject = random.choice(SUITED.get(about, tuple(SUBJECTS)))
    orders = SUBJECTS[subject].orders
    fewest = 0 if about in (GROUP, "batch write", "report") else 2
    runs = [
        _mishap(random, about, random.choice(orders), random.choice((fewest, 2, 3, 4)))
        for _ in range(RUNS)
    ]
    peaceful = Mishap(random.choice(orders), random.choice(STRATEGIES), random.choice((0, 1, 2)))
    return Plan(number, about, subject, (*runs, peaceful))


def _mishap(random: Random, about: str, order: str, workers: int) -> Mishap:
    strategy = random.choice(STRATEGIES)
    if about in PLACES:
        passage = random.randint(1, max(PASSAGES[about] // RUNS, 1))
        if PLACES[about] == "journal.rename":
            passage = 2 * passage - about.startswith("before")
        return Mishap(order, strategy, workers, about, f"{PLACES[about]}:{passage}")
    if about == GROUP:
        return Mishap(order, strategy, workers, kills=(Kill(GROUP, _moment(random)),))
    kills = [Kill(about, random.uniform(APART, 0.5)) for _ in range(MOST_KILLED[about])]
    if random.random() < 0.7:
        kills.append(Kill(GROUP, random.uniform(0.0, 0.5)))
    return Mishap(order, strategy, workers, kills=tuple(kills))


def _moment(random: Random) -> float:
    """Most often early in a run: later ones have less left to do."""
    return random.uniform(0.05, random.uniform(0.3, LIFE))
