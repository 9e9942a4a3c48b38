"""Solves the integer program of a step with HiGHS, which comes with scipy."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from .formulation import Formulation, formulate, rounded
from .greedy import solve_greedily
from .problem import Solution, StepProblem

TOLERANCE = 1e-9
"""Relative: an assignment within this of a proven bound is optimal."""


def solve_with_highs(problem: StepProblem, seconds: float = 10.0, gap: float = 1e-9) -> Solution:
    """The best assignment, or the best known one when time is up, with the bound that is proved."""
    start = solve_greedily(problem)
    if problem.teams == 1:
        return Solution(start.choice, start.cost, start.cost)
    if start.cost <= start.bound * (1 + TOLERANCE):
        return start
    form = formulate(problem, start.cost)
    rows = _LinearProgram(form)
    result = milp(
        rows.objective,
        constraints=rows.constraints(),
        bounds=rows.bounds(),
        integrality=rows.integrality,
        options={"time_limit": seconds, "mip_rel_gap": gap},
    )
    proved = getattr(result, "mip_dual_bound", None)
    bound = max(start.bound, (proved or 0.0) * form.scale)
    if result.x is None:
        return Solution(start.choice, start.cost, min(bound, start.cost))
    choice = form.expand(rounded(result.x[rows.counts]))
    cost = problem.cost(choice)
    if cost >= start.cost:
        choice, cost = start.choice, start.cost
    return Solution(choice, cost, min(bound, cost))


def relax(problem: StepProblem) -> float:
    """A bound from the linear program in which splits may be divided: fast, and never too high."""
    start = solve_greedily(problem)
    if start.cost <= 0:
        return 0.0
    form = formulate(problem, start.cost)
    rows = _LinearProgram(form)
    result = milp(rows.objective, constraints=rows.constraints(), bounds=rows.bounds())
    value = float(result.fun) * form.scale if result.x is not None else 0.0
    return max(start.bound, value)


class _LinearProgram:
    """Variables are T, the counts by class and team, and whether a team fetches a group."""

    def __init__(self, form: Formulation) -> None:
        classes, teams, groups = len(form.classes), form.teams, form.shared.shape[0]
        self.form = form
        self.counts = 1 + np.arange(classes * teams).reshape(classes, teams)
        self.fetches = 1 + classes * teams + np.arange(groups * teams).reshape(groups, teams)
        self.size = 1 + (classes + groups) * teams
        self.limits = form.limits()
        self.objective = np.zeros(self.size)
        self.objective[0] = 1.0
        self.integrality = np.zeros(self.size)
        self.integrality[self.counts] = 1
        self.integrality[self.fetches] = 1

    def bounds(self) -> Bounds:
        upper = np.ones(self.size)
        upper[self.counts] = self.limits
        return Bounds(np.zeros(self.size), upper)

    def constraints(self) -> list[LinearConstraint]:
        form, teams = self.form, np.arange(self.form.teams)
        # What is forbidden has an upper bound of 0; its infinite cost must not enter a row.
        private = np.where(self.limits > 0, form.private, 0.0)
        alone = np.where(self.limits > 0, form.alone, 0.0)
        entries: list[tuple[int, int, float]] = []
        low: list[float] = []
        high: list[float] = []

        def row(cells: list[tuple[int, float]], least: float, most: float) -> None:
            entries.extend((len(low), int(column), value) for column, value in cells if value)
            low.append(least)
            high.append(most)

        for number, split_class in enumerate(form.classes):
            # Every split runs once, and T is above the mean of what its class takes alone.
            size = len(split_class.members)
            row([(column, 1.0) for column in self.counts[number]], size, size)
            mean = [(c, -v) for c, v in zip(self.counts[number], alone[number], strict=True)]
            row([(0, float(size)), *mean], 0, np.inf)
            for group in split_class.groups:
                for team in teams:
                    most = float(self.limits[number, team])
                    # A team that runs any of a class fetches what the class reads.
                    if most:
                        cells = [
                            (self.fetches[group, team], most),
                            (self.counts[number, team], -1.0),
                        ]
                        row(cells, 0, np.inf)
        # T is above each team's load.
        for team in teams:
            work = [(c, -v) for c, v in zip(self.counts[:, team], private[:, team], strict=True)]
            data = [
                (c, -v) for c, v in zip(self.fetches[:, team], form.shared[:, team], strict=True)
            ]
            row([(0, 1.0), *work, *data], 0, np.inf)
        # Of teams that are alike, the earlier runs no fewer splits.
        for earlier, later in form.alike:
            greater = [(column, 1.0) for column in self.counts[:, earlier]]
            smaller = [(column, -1.0) for column in self.counts[:, later]]
            row([*greater, *smaller], 0, np.inf)
        at, columns, values = zip(*entries, strict=True)
        matrix = coo_array((values, (at, columns)), shape=(len(low), self.size)).tocsr()
        return [LinearConstraint(matrix, low, high)]
