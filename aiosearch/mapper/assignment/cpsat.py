"""Solves the integer program of a step with OR-tools' CP-SAT: the extra `aiosearch[place]`."""

from __future__ import annotations

import numpy as np

from ..errors import MappingError
from .formulation import formulate
from .greedy import solve_greedily
from .highs import TOLERANCE
from .problem import Solution, StepProblem

RESOLUTION = 10_000_000
"""Whole units in the cost of the known assignment: CP-SAT counts in whole numbers."""


def solve_with_cpsat(problem: StepProblem, seconds: float = 10.0) -> Solution:
    """The best assignment up to one part in ten million a term, with the bound that is proved."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise MappingError(
            "the solver cpsat needs OR-tools: pip install 'aiosearch[place]', or use highs"
        ) from None
    start = solve_greedily(problem)
    if problem.teams == 1 or start.cost <= start.bound * (1 + TOLERANCE):
        return start
    form = formulate(problem, start.cost)
    limits = form.limits()

    def units(value: float) -> int:
        # Rounded down, so that the optimum in units never exceeds the true one.
        return int(np.floor(value * RESOLUTION))

    model = cp_model.CpModel()
    time = model.new_int_var(0, RESOLUTION, "time")
    counts = [
        [model.new_int_var(0, int(limits[k, t]), f"n{k}.{t}") for t in range(form.teams)]
        for k in range(len(form.classes))
    ]
    fetches = [
        [model.new_bool_var(f"y{g}.{t}") for t in range(form.teams)]
        for g in range(form.shared.shape[0])
    ]
    for k, split_class in enumerate(form.classes):
        model.add(sum(counts[k]) == len(split_class.members))
        for group in split_class.groups:
            for t in range(form.teams):
                model.add(counts[k][t] <= int(limits[k, t]) * fetches[group][t])
    for t in range(form.teams):
        work = [
            units(form.private[k, t]) * counts[k][t]
            for k in range(len(form.classes))
            if limits[k, t]
        ]
        data = [units(form.shared[g, t]) * fetches[g][t] for g in range(len(fetches))]
        model.add(time >= sum(work) + sum(data))
    for earlier, later in form.alike:
        model.add(sum(row[earlier] for row in counts) >= sum(row[later] for row in counts))
    model.minimize(time)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    bound = max(start.bound, solver.best_objective_bound / RESOLUTION * form.scale)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solution(start.choice, start.cost, min(bound, start.cost))
    values = np.array([[solver.value(count) for count in row] for row in counts], dtype=np.int64)
    choice = form.expand(values)
    cost = problem.cost(choice)
    if cost >= start.cost:
        choice, cost = start.choice, start.cost
    return Solution(choice, cost, min(bound, cost))
