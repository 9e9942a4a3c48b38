"""The search for a mapping: stair climbing with lookahead, as a `Problem` on the engine.

Problem: a level of 64 splits on 340 cache groups has more assignments than can be listed, and what
is best for it depends on where the levels below will want the data.

Method. Level by level, from the teams of the level above. The assignment to a fixed set of teams is
an integer program, solved exactly; around it, the set of teams changes by moves (`teams`). A
candidate set is judged by its step's cost plus, with lookahead, that of the following levels
climbed the same way. Local moves go on while they help. Once they change nothing the climb is on a
plateau, and jumps to another node or to GPUs are tried; a second plateau, or a worse cost, ends the
level.

Example, a map of 96 chains in 4 splits on two nodes: 1 core, 24 cores (faster), two sockets
(faster), two sockets (equal: all of the CPU is used, a plateau), the other node's sockets (twice as
fast), the same (a plateau again), GPUs (no better): the level ends with a split on each of four
sockets.

A node of the search tree is the assignments so far, as positions in each level's list of splits, so
it is a value that travels to workers and into a journal. `width` children continue with the next
best sets of teams that the climb met: width 1 is the published search, more is a beam. The bound of
a node is what it costs so far plus the lower bounds of what computing the remaining levels takes.

Cost: (moves x rounds) ** (lookahead + 1) integer programs a level. Equal ones, as in every sweep of
a loop, are solved once: they are remembered by their numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from ..arguments import nearest
from .assignment.cpsat import solve_with_cpsat
from .assignment.exhaustive import solve_exhaustively
from .assignment.greedy import solve_greedily
from .assignment.highs import solve_with_highs
from .assignment.problem import Solution, StepProblem, pose
from .clusters import Cluster
from .costs import MODELS, FaithfulModel, StepCostModel, step_cost
from .errors import MappingError
from .levels import Level, flatten
from .mappings import Assignment, DataHolders, MappingResult, StepMapping
from .patterns import PatternProgram, Work
from .splits import SplitSizes
from .teams import JUMPS, LOCAL_MOVES, Team, Teams, first_team, full_team, host_team

Solver = Callable[[StepProblem], Solution]
SOLVERS: dict[str, Solver] = {
    "cpsat": solve_with_cpsat,
    "exhaustive": solve_exhaustively,
    "greedy": solve_greedily,
    "highs": solve_with_highs,
}
MAX_ROUNDS = 1000
SLACK = 1e-9
SAME = 1e-12
"""Costs this close, relative to each other, are equal: they differ in the order of summation."""


class Step(Struct, frozen=True):
    """A level's assignment as it travels: the teams, and the team of each placed split."""

    teams: tuple[Team, ...]
    choice: tuple[int, ...]
    cost: float


class Climb(Struct, frozen=True):
    """The levels that are mapped so far."""

    steps: tuple[Step, ...] = ()

    @property
    def cost(self) -> float:
        return sum(step.cost for step in self.steps)


class TeamCandidate(Struct, frozen=True):
    """A set of teams that the climb met, with its step and what it is judged by."""

    step: Step
    judged: float


class Mapping(Struct, frozen=True, kw_only=True, dict=True):
    """Maps a program of patterns to a cluster: a problem for `Search` or `solve`."""

    program: PatternProgram
    cluster: Cluster
    sizes: SplitSizes
    lookahead: int = 1
    overlap: float = 0.0
    width: int = 1
    solver: str = "highs"
    renaming: bool = False
    model: str = "faithful"

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            hint = nearest(self.model, MODELS)
            raise MappingError(f"there is no model {self.model!r}{hint}: {', '.join(MODELS)}")
        if self.solver not in SOLVERS:
            hint = nearest(self.solver, SOLVERS)
            raise MappingError(f"there is no solver {self.solver!r}{hint}: {', '.join(SOLVERS)}")
        if self.lookahead < 0 or self.width < 1 or not 0 <= self.overlap <= 1:
            raise MappingError("lookahead must be 0 or more, width 1 or more, overlap 0 to 1")

    def root(self) -> Climb:
        return Climb()

    def expand(self, node: Climb) -> list[Climb]:
        if len(node.steps) == len(self._levels):
            return []
        best = self._climber.climb(node, self.lookahead)[: self.width]
        return [Climb((*node.steps, candidate.step)) for candidate in best]

    def solutions(self, node: Climb) -> list[Climb]:
        return [node] if len(node.steps) == len(self._levels) else []

    def cost(self, solution: Climb) -> float:
        return solution.cost

    def bound(self, node: Climb) -> float:
        return node.cost + self._ahead[len(node.steps)]

    @cached_property
    def _levels(self) -> tuple[tuple[int, Level], ...]:
        levels = flatten(self.program, self.sizes, renaming=self.renaming)
        return tuple((number, level) for number, level in enumerate(levels) if level.placed)

    @cached_property
    def _ahead(self) -> list[float]:
        """By level: seconds that it and all below take at least, data at hand and teams at will.

        A level takes as long as its slowest split on the whole cache group that is fastest for it.
        """
        model = FaithfulModel(self.cluster, self.overlap)
        teams = tuple(full_team(self.cluster, at) for at in self.cluster.locations())
        least: dict[tuple[Work, int], float] = {}
        ahead = [0.0]
        for _, level in reversed(self._levels):
            for split in level.placed:
                kind = (split.work, split.iterations)
                if kind not in least:
                    least[kind] = float(model.execution(split, teams).min())
            slowest = max(least[split.work, split.iterations] for split in level.placed)
            # A little less, as sums in another order may differ in the last place.
            ahead.append(ahead[-1] + slowest * (1 - SLACK))
        return ahead[::-1]

    @cached_property
    def _climber(self) -> _Climber:
        model = MODELS[self.model](self.cluster, self.overlap)
        return _Climber(self.cluster, model, [level for _, level in self._levels], self.solver)

    def result(self, solution: Climb) -> MappingResult:
        """Writes a solution with its splits in place of positions."""
        return MappingResult(
            tuple(
                StepMapping(number, assigned(level, step), step.cost)
                for (number, level), step in zip(self._levels, solution.steps, strict=True)
            )
        )

    def statistics(self) -> dict[str, float]:
        """Integer programs posed and solved in this process, and the seconds that solving took."""
        climber = self._climber
        return {
            "posed": climber.posed,
            "solved": len(climber.solved),
            "solver_seconds": climber.solver_seconds,
        }


def assigned(level: Level, step: Step) -> Assignment:
    return tuple(
        (split, step.teams[team]) for split, team in zip(level.placed, step.choice, strict=True)
    )


class _Climber:
    """Climbs levels, and remembers the integer programs that it has solved."""

    def __init__(
        self, cluster: Cluster, model: StepCostModel, levels: list[Level], solver: str
    ) -> None:
        self.cluster = cluster
        self.model = model
        self.levels = levels
        self.solve = SOLVERS[solver]
        self.solved: dict[bytes, Solution] = {}
        self.posed = 0
        self.solver_seconds = 0.0
        self._climbed: dict[tuple[Step, ...], DataHolders] = {}

    def climb(self, node: Climb, lookahead: int) -> list[TeamCandidate]:
        """The candidates for the next level, the best first."""
        teams: Teams = first_team(self.cluster)
        if node.steps:
            last = node.steps[-1]
            teams = tuple(last.teams[t] for t in dict.fromkeys(last.choice))
        return self._climb(len(node.steps), teams, self._holdings(node), lookahead)

    def _holdings(self, node: Climb) -> DataHolders:
        """What is held where after a node's steps; that of its parent is usually remembered."""
        if not node.steps:
            return self.model.holdings()
        holdings = self._climbed.get(node.steps)
        if holdings is None:
            before = self._holdings(Climb(node.steps[:-1]))
            level = self.levels[len(node.steps) - 1]
            holdings = before.after(assigned(level, node.steps[-1]))
            # A beam walks few paths at a time; forgetting costs a replay, not an answer.
            if len(self._climbed) >= 1000:
                self._climbed.clear()
            self._climbed[node.steps] = holdings
        return holdings

    def _climb(
        self, number: int, teams: Teams, holdings: DataHolders, lookahead: int
    ) -> list[TeamCandidate]:
        level = self.levels[number]
        # A level that reads or writes files after one on GPUs needs a host beside them.
        if any(split.needs_cpu for split in level.placed) and not any(
            self.cluster.is_cpu(team.location) for team in teams
        ):
            teams = (*teams, host_team(self.cluster, teams))
        best = self._judge(number, teams, holdings, lookahead)
        met = [best]
        moves, plateau = LOCAL_MOVES, False
        for _ in range(MAX_ROUNDS):
            changed = [move(self.cluster, teams) for move in moves]
            candidates = [
                (self._judge(number, moved, holdings, lookahead), moved) for moved in changed
            ]
            met.extend(candidate for candidate, _ in candidates)
            following, next_teams = min(candidates, key=lambda pair: pair[0].judged)
            # Progress leads back to local moves; the first plateau opens the jumps, a second ends.
            if following.judged < best.judged * (1 - SAME):
                moves, plateau = LOCAL_MOVES, False
            elif following.judged <= best.judged * (1 + SAME) and not plateau:
                moves, plateau = JUMPS, True
            else:
                break
            best, teams = following, next_teams
        distinct = {candidate.step: candidate for candidate in met}
        return sorted(distinct.values(), key=lambda candidate: candidate.judged)

    def _judge(
        self, number: int, teams: Teams, holdings: DataHolders, lookahead: int
    ) -> TeamCandidate:
        level = self.levels[number]
        problem = pose(self.cluster, self.model, level.placed, teams, holdings)
        solution = self._solution(problem)
        step = Step(teams, solution.choice, 0.0)
        # The program is linear in what the teams do; the score is not, so it is judged again.
        assignment = assigned(level, step)
        cost = step_cost(self.model, assignment, holdings)
        step = Step(teams, solution.choice, cost)
        if lookahead == 0 or number + 1 == len(self.levels):
            return TeamCandidate(step, cost)
        # The next level starts from teams that work here, not from all that were allowed.
        used = tuple(teams[t] for t in dict.fromkeys(solution.choice))
        following = self._climb(number + 1, used, holdings.after(assignment), lookahead - 1)
        return TeamCandidate(step, cost + following[0].judged)

    def _solution(self, problem: StepProblem) -> Solution:
        self.posed += 1
        key = problem.fingerprint()
        if key not in self.solved:
            started = time.perf_counter()
            self.solved[key] = self.solve(problem)
            self.solver_seconds += time.perf_counter() - started
        return self.solved[key]
