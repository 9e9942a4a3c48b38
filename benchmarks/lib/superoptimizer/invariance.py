"""Whether a search of fused programs comes to the same however it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from lib.figures import figure
from lib.superoptimizer.expected_programs import WANTED, Programs, sighted
from search_process import DEVICE, Outcome, Task, searched

from aiosearch.devices import device
from aiosearch.superoptimizer.enumeration.problem import Fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program
from aiosearch.tensor.files import to_json
from aiosearch.tensor.programs import builtin

LEFT_OUT = ("start_up", "seconds", "mebibytes")
"""What need not be equal."""


def equal_in_any_order(name: str, space: Space) -> None:
    """Declares the inputs of a program in every order, and looks for what it must have in each."""
    reference = builtin(name)
    counts: set[tuple[int, ...]] = set()
    orders = list(permutations(reference.inputs))
    for order in orders:
        program = Program(name, order, reference.outputs)
        counts.add(_counts(Programs(Fusion(to_json(program), space)), name))
    least = min(counts)
    figure(
        f"{name}, every order of its inputs: different results",
        len(counts),
        "results",
        target=1,
        orders=len(orders),
        kernel_graphs=least[0],
        programs=least[1],
        **dict(zip(WANTED[name], least[2:], strict=True)),
    )


def _counts(programs: Programs, name: str) -> tuple[int, ...]:
    """Kernel graphs, programs, and how many are what is wanted; -1 where none is accepted."""
    seen = [sighted(programs, what, those, device(DEVICE)) for what, those in WANTED[name].items()]
    wanted = [one.programs if one.evidence else -1 for one in seen]
    return len(programs.found), sum(found.programs for found in programs.found), *wanted


def equal_for_workers(name: str, numbers: Sequence[int]) -> None:
    """Searches one program by several numbers of workers, each in a fresh process."""
    runs = [searched(Task(name, workers=number)) for number in numbers]
    figure(
        f"{name}, several numbers of workers: different results",
        len({_result(run) for run in runs}),
        "results",
        target=1,
        workers=list(numbers),
        kernel_graphs=runs[0].graphs,
        programs=runs[0].programs,
        answers=len(runs[0].answers),
        cpu_seconds=[round(run.cpu, 2) for run in runs],
    )


def _result(run: Outcome) -> str:
    return repr([getattr(run, name) for name in run.__struct_fields__ if name not in LEFT_OUT])
