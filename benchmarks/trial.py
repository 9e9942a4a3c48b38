"""One chaos trial: a search that is killed again and again, taken up each time, and compared."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec
from mishaps import GROUP, SOLVER, Kill, Mishap, Plan
from subjects import SUBJECTS, Answers
from victim import Outcome, Request

from aiosearch.checks.digest import digest, z3_version
from aiosearch.checks.store import Store

PATIENCE = 60.0
"""Seconds after which a run of one or two hangs."""
KEPT = Path("/tmp/aiosearch-chaos")
"""Where the files of failed trials stay."""
MODULES = {SOLVER: "aiosearch.checks.solver"}
WORKER_MODULE = "aiosearch.engine.worker"


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
        self._solvers_killed = 0

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
            killed = self._strike(process, mishap.kills, started)
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
            mishap.workers,
            str(self._journal),
            str(self._folder / "cache"),
            str(self._outcome),
            resume=self._journal.exists() and self._journal.stat().st_size > 0,
        )
        script = Path(__file__).with_name("victim.py")
        with (self._folder / f"run{number}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, str(script), msgspec.json.encode(request)],
                env={**os.environ, "AIOSEARCH_FAULT": mishap.place},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _strike(
        self, process: subprocess.Popen[bytes], kills: Iterable[Kill], started: float
    ) -> bool:
        """Kills what is to be killed; says whether that was everything."""
        for kill in kills:
            try:
                process.wait(max(started + kill.seconds - time.monotonic(), 0.0))
                return False
            except subprocess.TimeoutExpired:
                pass
            if kill.kind == GROUP:
                os.killpg(process.pid, signal.SIGKILL)
                return True
            if kill_child(process.pid, MODULES.get(kill.kind, WORKER_MODULE)):
                self.struck[kill.kind] += 1
                self._solvers_killed += kill.kind == SOLVER
        return False

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
        if outcome.unknown:
            wrong.append(f"{outcome.unknown} verdicts unknown")
        wrong += wrong_verdicts(self.plan.subject, self._folder / "cache")


def plain(value: Any) -> Any:
    """Gives a value as it comes back from msgpack without a type."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


@cache
def answers(subject: str) -> Answers:
    return SUBJECTS[subject].answers()


@cache
def verdicts(subject: str) -> dict[bytes, str]:
    """What z3 must answer to every question of a subject, by digest."""
    problem = SUBJECTS[subject].problem
    if not hasattr(problem, "alive"):
        return {}
    level = [problem.root()]
    for _ in range(problem.asked):
        level = [child for node in level for child in problem.expand(node)]
    version = z3_version()
    right = {True: "proved", False: "refuted"}
    return {
        digest(problem.obligation(node), "", version): right[problem.alive(node)] for node in level
    }


def wrong_verdicts(subject: str, path: Path) -> list[str]:
    """Reads the verdicts that a trial left on disk."""
    if not (known := verdicts(subject)):
        return []
    store = Store(path)
    try:
        rows = {key: store.get(key) for key in store.digests()}
    finally:
        store.close()
    return [
        f"the cache says {verdict and verdict.status} to {key.hex()}, not {known.get(key)}"
        for key, verdict in rows.items()
        if verdict is None or str(verdict.status) != known.get(key)
    ]


def kill_child(host: int, module: str) -> bool:
    """Kills one process of those that the host started with this module."""
    try:
        children = Path(f"/proc/{host}/task/{host}/children").read_text().split()
    except OSError:
        return False
    victims = [int(pid) for pid in children if module in command_of(int(pid))]
    if not victims:
        return False
    os.kill(victims[time.monotonic_ns() % len(victims)], signal.SIGKILL)
    return True


def alive_in_group(group: int) -> list[int]:
    """The processes of a group that run: zombies are gone for our purposes."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] not in "ZX":
                found.append(int(entry))
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""
