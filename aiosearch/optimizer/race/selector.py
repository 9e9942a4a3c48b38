"""The choice of a winner: candidates are compiled, raced and checked, in this order.

Checking on the device is dear, and most candidates are slow: so the fastest is checked first, and
the next one only where it fails. The stages are

- a first race of all, a third of the rounds and half of the seconds, where there are more than
  `Budget.finalists`, in no `Way` but the one that decides;
- `tune_kernels` near its fastest kernels;
- vast inputs, on which what computes something larger than the original overflows: it is watched
  (`guard_candidate`) from here on;
- the last race, in all ways unless that takes too long (`_decides_alone`), and for its winners by
  turns the check against float64 and a race of confirmation, which is in all ways;
- that again, with what was merely overflown watched, with the next best where none of them can be
  taken, or with what noise may have hidden beside a winner that was not confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ...equivalence import FloatEvidence
from ...measure import Executor, Race, Way
from ...measure.race import LEAST_ROUNDS
from ...tensor import Program
from ..candidates.generation import CandidateSource
from ..effort import NO_DEADLINE, Budget, Deadline
from ..jax_settings import JaxSettings, current_settings
from ..outcomes.evidence import Tried
from ..outcomes.report import Tell
from ..outcomes.unfinished_work import WorkRecord
from .entrants import Entrants, GivenInputs
from .kernel_tuning import KernelMaker, tune_kernels
from .selection import (
    CONFIRMATION_SEED_OFFSET,
    RaceResult,
    Selection,
    apparent_winners,
    decide_race,
    describe_noise,
    describe_slower_modes,
    is_spelling,
    ratio,
    times,
    winners,
)

RANKING_ROUNDS = 3
"""Rounds at least of the first race, which says who is worth another one and needs no interval. Of
calls of a tenth of a second `LEAST_ROUNDS` take half of what a quick search may."""
MOST_GUESSES = 4
"""How many are raced again of what noise may have hidden."""


@dataclass
class Selector:
    """Chooses for one program."""

    executor: Executor
    program: Program
    budget: Budget
    seed: int
    strict: bool
    tell: Tell
    settings: JaxSettings = field(default_factory=current_settings)
    """The settings of jax under which the winner will run."""
    maker: KernelMaker | None = None
    """Writes further kernels, in addition to those among the contenders."""
    record: WorkRecord = field(default_factory=WorkRecord.nowhere)
    """What was checked before."""
    given: GivenInputs | None = None
    """Gives what the user's arguments come to in this program, if they do."""
    deadline: Deadline = NO_DEADLINE
    """After this, nothing is tried again and nothing further, and no check goes on."""
    _finals: dict[CandidateSource, RaceResult] = field(default_factory=dict)
    _sure: dict[CandidateSource, FloatEvidence] = field(default_factory=dict)
    """What has won once more, and the evidence for it; it need not do so again."""
    _hidden: dict[CandidateSource, None] = field(default_factory=dict)
    """What noise may have hidden to be faster; a `dict` keeps their order."""
    _again: set[CandidateSource] = field(default_factory=set)
    """Contenders that have been watched, or could not be."""
    _first: RaceResult | None = None
    """The race that chose who runs in the last one, where there were too many."""
    _raced: set[CandidateSource] = field(default_factory=set)
    """Who has run in a last race."""

    def __post_init__(self) -> None:
        self._entrants = Entrants(
            self.executor,
            self.program,
            self.seed,
            self.strict,
            self.tell,
            self.settings,
            self.record,
            self.given,
            self.deadline,
        )

    async def select(self, contenders: Sequence[CandidateSource]) -> Selection:
        """Races contenders, the original first; raises `OptimizeError` where the original itself
        cannot be run."""
        async with self._entrants:
            return await self._select(contenders)

    async def _select(self, contenders: Sequence[CandidateSource]) -> Selection:
        inputs = await self._entrants.begin(contenders)
        count = len(self._entrants.compiled)
        self.tell(f"{count} of {len(contenders)} compiled; racing on {inputs}")
        last = await self._last_race(await self._finalists())
        winner, floats, otherwise = await self._chosen(last)
        while (again := await self._further(last, winner)) is not None:
            race_result = await self._last_race(again)
            chosen = await self._chosen(race_result)
            if chosen[0] is not contenders[0]:
                # The later race has the earlier winner in it: whoever wins there beats both.
                last, (winner, floats, otherwise) = race_result, chosen
            elif winner is contenders[0]:
                last = race_result
        self._note_losers()
        final = self._finals.get(winner, last)
        tried = self._tried([*contenders, *self._entrants.compiled], last, winner)
        # If something won, it is above the noise, whatever else may be hidden.
        hidden = self._hidden if winner is contenders[0] else {}
        out = self._entrants.inaccurate | {*self._entrants.overflown}
        guesses = [contender for contender in hidden if contender not in out]
        return Selection(
            winner,
            last,
            final,
            tried,
            inputs,
            otherwise,
            floats,
            tuple(guesses[:MOST_GUESSES]),
            out,
        )

    async def _further(
        self, last: RaceResult, winner: CandidateSource
    ) -> list[CandidateSource] | None:
        """Who runs once more, as long as there is time; `None` where nobody has to."""
        if self.deadline.passed:
            return None
        again = await self._watched(last) or self._next_best(winner)
        return again or self._left_open(last, winner)

    async def _finalists(self) -> list[CandidateSource]:
        """The contenders that did best in a first race, where there are too many, and kernels near
        them."""
        everyone = list(self._entrants.compiled)
        # One more for the original, which always runs.
        if len(everyone) <= self.budget.finalists + 1:
            return everyone
        self._first = first = await self._race(
            everyone,
            self.budget.rounds // 3,
            self.budget.race_seconds / 2,
            deciding=True,
            least=RANKING_ROUNDS,
        )
        tuned = (
            []
            if self.maker is None
            else await tune_kernels(self._entrants, first, self.maker, self.budget)
        )
        finalists = [*first.best(self.budget.finalists, self._entrants.notes), *tuned]
        self.tell(
            f"{len(finalists) - 1} beside the original in the last race, up to"
            f" {max(ratio(first.race, place) for place in range(len(everyone))):.2f} times as fast"
            " in the first"
        )
        return [*dict.fromkeys([await self._screened(finalist, first) for finalist in finalists])]

    async def _screened(self, finalist: CandidateSource, first: RaceResult) -> CandidateSource:
        """A finalist, watched if it overflows: else it would win the last race in vain."""
        # A check is dear: what is no faster will not be checked.
        seemed = {first.entrants[place] for place in apparent_winners(first.race)}
        if finalist in first.entrants and finalist not in seemed:
            return finalist
        if await self._entrants.overflows(finalist):
            self._again.add(finalist)
            return await self._entrants.instead(finalist) or finalist
        return finalist

    async def _chosen(
        self, last: RaceResult
    ) -> tuple[CandidateSource, FloatEvidence | None, CandidateSource]:
        """The winner, the evidence for it, and the winner of those that make nothing beforehand."""
        winner, floats = await self._winner(last)
        if winner.beforehand is None:
            return winner, floats, winner
        otherwise, _ = await self._winner(last, beforehand=False)
        return winner, floats, otherwise

    async def _watched(self, last: RaceResult) -> list[CandidateSource] | None:
        """Who runs once more, as some of them are watched now; `None` where none has to be."""
        original, *rivals = last.entrants
        lacking = [
            contender
            for contender in rivals
            if contender in self._entrants.overflown and contender not in self._again
        ]
        # Each is watched once: if it is out again, it is out for good.
        self._again.update(lacking)
        instead = [await self._entrants.instead(contender) for contender in lacking]
        watched = [contender for contender in instead if contender is not None]
        left = [contender for contender in rivals if contender not in self._entrants.notes]
        return [original, *left, *watched] if watched else None

    def _next_best(self, winner: CandidateSource) -> list[CandidateSource] | None:
        """The next that seemed faster, where those that did have all turned out to be wrong; else
        `None`.

        Others of a wrong form are left out: they compute the same program and are as wrong. The
        best spelling runs again, for comparison.
        """
        first, notes, wrong = self._first, self._entrants.notes, self._entrants.inaccurate
        if first is None or winner is not self._entrants.original or not wrong:
            return None
        seemed = [first.entrants[place] for place in apparent_winners(first.race)]
        if any(contender in self._raced and contender not in notes for contender in seemed):
            return None
        # A form that was wrong on the device is wrong in every spelling.
        forms = {contender.form for contender in wrong}
        left = [
            contender
            for contender in seemed
            if contender not in self._raced and contender.form not in forms
        ]
        next_best = first.best(self.budget.finalists, set(first.entrants) - set(left))[1:]
        if not next_best:
            return None
        self.tell(f"none of them can be taken: {len(next_best)} more beside the original")
        # Nothing of a wrong form is what a winner has to beat.
        alike = {entrant for entrant in first.entrants if entrant.form and entrant.form in forms}
        plain = first.plain(alike | {*notes}), first.spelling(notes)
        return list(dict.fromkeys([self._entrants.original, *next_best, *plain]))

    def _left_open(self, last: RaceResult, winner: CandidateSource) -> list[CandidateSource] | None:
        """What noise may have hidden beside a winner that could not be taken; else `None`.

        The race was not run again, as something had won it. Alone with the original they have more
        rounds in the same time.
        """
        if winner is not self._entrants.original or not winners(last.race):
            return None
        left = [hidden for hidden in self._hidden if hidden not in self._entrants.notes]
        # What that race says of them takes the place of what was hidden.
        for contender in left:
            del self._hidden[contender]
        return [winner, *left] if left else None

    async def _last_race(self, finalists: Sequence[CandidateSource]) -> RaceResult:
        """Races the finalists, again where noise may hide something."""
        self._raced.update(finalists)

        deciding = self._decides_alone(finalists)

        async def racing() -> Race:
            rounds = self.budget.rounds
            return (await self._race(finalists, rounds, deciding=deciding)).race

        def counts(place: int) -> bool:
            return finalists[place] not in self._entrants.notes

        race, hidden = await decide_race(racing, self.tell, counts, self.deadline)
        self._hidden |= {finalists[place]: None for place in hidden}
        return RaceResult(tuple(finalists), race)

    def _decides_alone(self, finalists: Sequence[CandidateSource]) -> bool:
        """Whether a race in all ways would take more than its seconds even with the least rounds
        that it needs: then it is in the one that decides, and the others are left to the race that
        confirms its winner."""
        if self._first is None:
            return False
        race = self._first.race
        seconds = {
            entrant: race.laps[place].samples[race.deciding].median()
            for place, entrant in enumerate(self._first.entrants)
            if race.speedup(place) is not None
        }
        # The original runs twice, and what was not in the first race is no slower than it.
        original = seconds[finalists[0]]
        calls = original + sum(seconds.get(finalist, original) for finalist in finalists)
        return len(Way) * LEAST_ROUNDS * calls > self.budget.race_seconds

    async def _race(
        self,
        entrants: Sequence[CandidateSource],
        rounds: int,
        seconds: float | None = None,
        *,
        seed: int = 0,
        deciding: bool = False,
        least: int = LEAST_ROUNDS,
    ) -> RaceResult:
        seconds = self.budget.race_seconds if seconds is None else seconds
        return await self._entrants.race(
            entrants, rounds, seconds=seconds, seed=seed, deciding=deciding, least=least
        )

    def _note_losers(self) -> None:
        if self._first is None:
            return
        race = self._first.race
        for place, contender in enumerate(self._first.entrants):
            if contender not in self._raced and race.speedup(place) is not None:
                self._entrants.note(
                    [contender], f"{ratio(race, place):.2f} times in the first race"
                )

    async def _winner(
        self, last: RaceResult, *, beforehand: bool = True
    ) -> tuple[CandidateSource, FloatEvidence | None]:
        """The fastest that wins in `last` and alone, and that the device computes accurately."""
        for place in winners(last.race):
            contender = last.entrants[place]
            if contender in self._entrants.notes:
                continue
            if contender.beforehand is not None and not beforehand:
                continue
            # It has been checked and confirmed in an earlier pass: a further race adds nothing.
            if contender in self._sure:
                return contender, self._sure[contender]
            floats = await self._entrants.agreeing(contender)
            # The check comes first: it needs no quiet machine, and what is wrong need not be timed
            # again.
            if floats is not None and await self._confirmed(last, contender):
                self._sure[contender] = floats
                return contender, floats
        return last.entrants[0], None

    async def _confirmed(self, last: RaceResult, contender: CandidateSource) -> bool:
        """Whether it wins once more, on other inputs, without those that it was chosen from.

        By the median of the paired rounds it must not be behind the best plain JAX either, which is
        checked as well where that decides.
        """
        out = self._entrants.notes
        # A `dict`, as the best plain JAX may be the contender or the original itself.
        alone = dict.fromkeys([last.entrants[0], contender, last.plain(out)])
        self.tell(f"racing {contender.how} once more, to confirm it")

        async def racing() -> Race:
            offset = CONFIRMATION_SEED_OFFSET
            return (await self._race([*alone], self.budget.rounds, seed=offset)).race

        race, _ = await decide_race(racing, self.tell, lambda place: place == 1, self.deadline)
        final = RaceResult(tuple(alone), race)
        plain = final.plain(out)
        beaten = final.race.wins(1) and final.speedup(contender, plain) < 1
        unchecked = not is_spelling(plain) and plain not in self._sure
        # What is wrong on the device is nothing to be compared with.
        if beaten and unchecked and await self._entrants.agreeing(plain) is None:
            plain = final.plain(out)
        over_plain = final.speedup(contender, plain)
        if final.race.wins(1) and over_plain >= 1:
            self._finals[contender] = final
            return True
        if final.race.hides(1):
            self._hidden[contender] = None
        if final.race.speedup(1) is not None:
            outcome = f"{ratio(final.race, 1):.2f} times in a race of its own"
            outcome += f", {over_plain:.2f} times the best plain JAX" if final.race.wins(1) else ""
            slower = describe_slower_modes(final.race, 1)
            outcome += f", {slower}" if slower else ""
            heard = f"not confirmed: {outcome}, with noise {describe_noise(final.race)}"
            self._entrants.is_out(contender, heard)
        return False

    def _tried(
        self, contenders: Sequence[CandidateSource], last: RaceResult, winner: CandidateSource
    ) -> tuple[Tried, ...]:
        places = {contender: place for place, contender in enumerate(last.entrants)}
        records = {
            contender: self._one_tried(contender, places.get(contender), last.race)
            for contender in contenders
        }
        records[winner] = replace(records[winner], won=True)
        return tuple(records.values())

    def _one_tried(self, contender: CandidateSource, place: int | None, race: Race) -> Tried:
        note = self._entrants.notes.get(contender, "")
        verdict = contender.verdict[0] if contender.verdict else "the same operations"
        # It did not run in the last race: what it took in the first one is on another clock.
        if place is None or race.speedup(place) is None:
            return Tried(contender.how, None, None, note, verdict, schedule=contender.schedule)
        low, middle, high = times(race, place)
        speedup = ratio(race, place)
        return Tried(
            contender.how,
            middle,
            speedup,
            note or describe_slower_modes(race, place),
            verdict,
            low,
            high,
            schedule=contender.schedule,
        )
