"""One chaos trial: a search that is killed again and again, taken up each time, and compared."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec
from expected_answers import answers, plain, wrong_verdicts
from kill_plan import GROUP, SOLVER, WORKER, Kill, Mishap, Plan
from killed_search import Outcome, Request
from lib.engine.processes import alive_in_group, children_of, command_of, kill_child, wait_until

PATIENCE = 60.0
"""Seconds after which a run of one or two hangs."""
KEPT = Path("/tmp/aiosearch-chaos")
"""Where the files of failed trials stay."""
MODULES = {SOLVER: "aiosearch.checks.solver", WORKER: "aiosearch.engine.worker.worker_main"}


class Report(msgspec.Struct):
    """What a trial came to: the faults that struck, and what was wrong afterwards."""

    plan: Plan
    struck: Counter[str]
    failures: list[str]
    seconds: float


def run_trial(plan: Plan) -> Report:
    """Runs a trial in a folder of its own, which is kept if it fails."""
    started = time.monotonic()
    folder = Path(mkdtemp(prefix="aiosearch-chaos-"))
    trial = Trial(plan, folder)
    try:
        trial.run()
    except FailureError as failure:
        trial.failures.append(str(failure))
    if trial.failures:
        shutil.copytree(folder, KEPT / f"{plan.number}", dirs_exist_ok=True)
    shutil.rmtree(folder)
    return Report(plan, trial.struck, trial.failures, time.monotonic() - started)


class FailureError(Exception):
    """What a search did that it must not do."""


class Trial:
    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.struck: Counter[str] = Counter()
        self.failures: list[str] = []
        self._folder = folder
        self._journal = folder / "journal"
        self._outcome = folder / "outcome"

    def run(self) -> None:
        for number, mishap in enumerate(self.plan.runs):
            self._one_run(number, mishap)
            if self._outcome.exists():
                self._compare(msgspec.json.decode(self._outcome.read_bytes(), type=Outcome))
                return
        raise FailureError("the run that was left in peace was killed")

    def _one_run(self, number: int, mishap: Mishap) -> None:
        process = self._start(number, mishap)
        killed = False
        started = time.monotonic()
        try:
            killed = self._strike(process, mishap.kills)
            code = process.wait(max(started + PATIENCE - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            raise FailureError(f"run {number} hangs; see run{number}.log") from None
        finally:
            self._clear(process, number)
        self._judge(number, mishap, code, killed)

    def _start(self, number: int, mishap: Mishap) -> subprocess.Popen[bytes]:
        request = Request(
            self.plan.subject,
            mishap.order,
            mishap.strategy,
            mishap.workers,
            str(self._journal),
            str(self._folder / "cache"),
            str(self._outcome),
            resume=self._journal_size() > 0,
        )
        script = Path(__file__).with_name("killed_search.py")
        with (self._folder / f"run{number}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, str(script), msgspec.json.encode(request)],
                env={**os.environ, "AIOSEARCH_FAULT": mishap.place},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _strike(self, process: subprocess.Popen[bytes], kills: Iterable[Kill]) -> bool:
        """Kills what is to be killed; says whether that was everything."""
        for number, kill in enumerate(kills):
            self._await(process, kill.kind, later=number > 0)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(kill.seconds)
                return False
            if kill.kind == GROUP:
                os.killpg(process.pid, signal.SIGKILL)
                return True
            self.struck[kill.kind] += kill_child(process.pid, MODULES[kill.kind])
        return False

    def _await(self, process: subprocess.Popen[bytes], kind: str, later: bool) -> None:
        """Waits until there is one to be killed.

        A second worker is not killed before one has reported: if all of them die before they say a
        word, the search is right to give up.
        """
        if kind != GROUP:
            wait_until(process, lambda: children_of(process.pid, MODULES[kind]))
        if later and kind == WORKER:
            size = self._journal_size()
            wait_until(process, lambda: self._journal_size() != size)

    def _journal_size(self) -> int:
        return self._journal.stat().st_size if self._journal.exists() else 0

    def _judge(self, number: int, mishap: Mishap, code: int, killed: bool) -> None:
        if code == -signal.SIGKILL and (killed or mishap.place):
            self.struck[mishap.kind or GROUP] += 1
        elif code:
            log = (self._folder / f"run{number}.log").read_text(errors="replace")
            last = log.strip().rsplit("\n", 1)[-1]
            raise FailureError(f"run {number} ({mishap}) ended with status {code}: {last}")

    def _clear(self, process: subprocess.Popen[bytes], number: int) -> None:
        """Waits until nothing of the run is left; what stays is a failure, and is killed."""
        ended = process.poll() is not None
        for _ in range(200):
            if ended and not alive_in_group(process.pid):
                return
            if not ended:
                break
            time.sleep(0.01)
        left = [command_of(pid) for pid in alive_in_group(process.pid)]
        for pid in alive_in_group(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        if ended:
            self.failures.append(f"run {number} left processes behind: {left}")

    def _compare(self, outcome: Outcome) -> None:
        expected = answers(self.plan.subject)
        found: list[Any] = msgspec.msgpack.decode(outcome.solutions, strict=False)
        keys = Counter(map(repr, found))
        wrong = self.failures
        if outcome.status != "complete":
            wrong.append(f"the search ended {outcome.status}: {outcome.reason}")
        if repeated := [key for key, count in keys.items() if count > 1]:
            wrong.append(f"solutions reported twice: {repeated[:5]}")
        if expected.solutions is not None:
            wanted = {repr(plain(solution)) for solution in expected.solutions}
            if lost := wanted - keys.keys():
                wrong.append(f"{len(lost)} of {len(wanted)} solutions lost: {sorted(lost)[:5]}")
            if extra := keys.keys() - wanted:
                wrong.append(f"{len(extra)} solutions that are none: {sorted(extra)[:5]}")
        if expected.nodes is not None and outcome.nodes != expected.nodes:
            wrong.append(f"{outcome.nodes} nodes counted, and there are {expected.nodes}")
        if outcome.best_cost != expected.best_cost:
            wrong.append(f"best cost {outcome.best_cost}, not {expected.best_cost}")
        if outcome.unknown != expected.unknown:
            wrong.append(f"{outcome.unknown} verdicts unknown, not {expected.unknown}")
        wrong += wrong_verdicts(self.plan.subject, self._folder / "cache")
