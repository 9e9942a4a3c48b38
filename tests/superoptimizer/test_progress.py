from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from aiosearch.devices import device
from aiosearch.events import AnyEvent, Improved
from aiosearch.search import Search
from aiosearch.superoptimizer.enumeration.problem import Fusion
from aiosearch.superoptimizer.progress import PhaseClock, StopRecorder, always_continue, cpu_seconds
from aiosearch.superoptimizer.superoptimization import superoptimize
from aiosearch.tensor.files import to_json
from aiosearch.tensor.programs import builtin

NORM = builtin("rms_norm", row=4, feature=8, column=8)


def test_by_default_work_goes_on() -> None:
    assert always_continue("on and on")


def test_what_is_raised_breaks_the_tables_off() -> None:
    def enough(text: str) -> bool:
        assert text.startswith("computing tables")
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Fusion(to_json(NORM)).prepare(enough)


async def test_who_has_enough_gets_what_was_ranked() -> None:
    """Every stage tells what it is at; what was ranked until then is verified."""
    told: list[str] = []

    def going(text: str) -> bool:
        told.append(text.split()[0])
        return not text.startswith("ranking 3")

    findings = await superoptimize(NORM, device("A100"), top=10, going=going)
    assert list(dict.fromkeys(told)) == ["computing", "ranking", "trying", "verifying"]
    assert told.count("ranking") == 3
    (undone,) = findings.undone
    assert undone.startswith("ranking 3 of ")
    assert 1 <= len(findings.answers) <= 2
    assert findings.graphs > 3


async def test_a_search_that_is_stopped_is_ranked_as_far_as_it_came() -> None:
    """One that would go on for seconds after what it is stopped at."""
    begun: list[Search[Any, Any]] = []

    def heard(event: AnyEvent) -> None:
        if isinstance(event, Improved) and event.number == 1:
            begun[0].stop("enough")

    program = builtin("qk_norm_v", head=2, row=8, feature=6, key=16, value=4)
    findings = await superoptimize(program, device("A100"), top=1, on=heard, opened=begun.append)
    assert findings.status == "cancelled"
    assert findings.graphs >= 1
    assert findings.answers


def test_what_was_not_done_is_noted() -> None:
    noting = StopRecorder(lambda text: text != "two")
    assert [noting(text) for text in ("one", "two", "three")] == [True, False, True]
    assert noting.undone == ["two"]


BURNS = "import time\nwhile time.process_time() < 0.2: pass"


def test_children_that_have_ended_count_too() -> None:
    before = cpu_seconds()
    subprocess.run([sys.executable, "-c", BURNS], check=True)
    assert cpu_seconds() - before >= 0.2


def test_each_thing_takes_what_came_since_the_one_before() -> None:
    clock = PhaseClock()
    subprocess.run([sys.executable, "-c", BURNS], check=True)
    clock.took("burning")
    clock.took("nothing")
    assert clock.seconds["burning"] >= 0.2 > clock.seconds["nothing"] >= 0
