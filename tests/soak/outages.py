"""Does things to the machines of a search, and shows that nothing is lost and nothing doubled.

    python tests/soak/outages.py                  # a hundred of each kind
    python tests/soak/outages.py --each 5 --seed 7

Two machines serve a search over TCP, each through a proxy of its own that can hold up, slow down or
cut what passes. A trial is one search of about a second to which one thing happens at a moment that
is drawn; it must then report what a plain walk of its tree finds, to the node. Machines, and the
search that is killed and taken up again from its journal, are console scripts of their own. For
partitions there are three hosts, in network namespaces, where the machine allows it: one or two are
cut off, both ways or one way, for less than the patience or for more, and come back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from aiosearch_sockets import TcpListener, new_token, read_token
from lib.figures import figure
from link_proxy import Proxy
from network_partitions import forbidden, partitioned

from aiosearch import Search
from aiosearch.result import Result
from aiosearch.workloads import Lopsided

PATIENCE = 0.6
"""Seconds of silence after which a machine is given up, so that a trial takes no longer."""
TREE = Lopsided(height=34)
MOST_SECONDS = 60.0
"""A trial that takes longer hangs."""


@dataclass
class Machine:
    """A worker's console script, behind a proxy."""

    proxy: Proxy
    process: asyncio.subprocess.Process
    frozen: bool = False

    @property
    def children(self) -> list[int]:
        """Its worker processes."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with contextlib.suppress(OSError):
            return [int(pid) for pid in path.read_text().split()]
        return []

    def signal(self, number: int) -> None:
        """To the machine as a whole: all its processes."""
        for pid in (self.process.pid, *self.children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    async def end(self) -> None:
        self.signal(signal.SIGCONT)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self.proxy.close()


@dataclass
class Stage:
    """Where a trial happens."""

    folder: Path
    random: random.Random
    machines: list[Machine] = field(default_factory=list)

    @property
    def token(self) -> Path:
        return self.folder / "token"

    async def machine(self, port: int) -> Machine:
        """One more machine, for the search that listens on a port."""
        proxy = await Proxy.start(port)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "aiosearch", "worker", "--connect", f"127.0.0.1:{proxy.port}"),
            *("--token-file", str(self.token), "--workers", "1", "--patience", str(PATIENCE)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        made = Machine(proxy, process)
        self.machines.append(made)
        return made

    async def close(self) -> None:
        for machine in self.machines:
            await machine.end()


Outage = Callable[[Stage, Machine], Awaitable[None]]
"""What happens to a machine."""


async def killed(stage: Stage, machine: Machine) -> None:
    machine.signal(signal.SIGKILL)


async def worker_killed(stage: Stage, machine: Machine) -> None:
    for pid in machine.children[:1]:
        os.kill(pid, signal.SIGKILL)


async def frozen(stage: Stage, machine: Machine) -> None:
    """It comes back after it was given up."""
    machine.signal(signal.SIGSTOP)
    await asyncio.sleep(2 * PATIENCE)
    machine.signal(signal.SIGCONT)


async def cut_off(stage: Stage, machine: Machine) -> None:
    machine.proxy.cut()


async def late(stage: Stage, machine: Machine) -> None:
    """What it said meanwhile arrives when nobody waits for it any more."""
    machine.proxy.hold()
    await asyncio.sleep(2 * PATIENCE)
    machine.proxy.release()


async def slow(stage: Stage, machine: Machine) -> None:
    machine.proxy.slow(seconds=stage.random.uniform(0.005, 0.1))


async def told_to_leave(stage: Stage, machine: Machine) -> None:
    machine.process.send_signal(signal.SIGTERM)


async def another_version(stage: Stage, machine: Machine) -> None:
    """A machine with another version of z3 knocks; it is not let in."""
    code = (
        "import sys; from aiosearch.remote import agent;"
        "agent.versions = lambda: {'python': '3.11', 'aiosearch': '9', 'z3-solver': '1'};"
        "from aiosearch.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "worker", "--connect", f"127.0.0.1:{machine.proxy.port}"),
        *("--token-file", str(stage.token), "--workers", "1"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await process.communicate()
    if process.returncode != 1 or b"aiosearch 9 there" not in told:
        raise AssertionError(f"a machine of another version was not refused by name: {told!r}")


OUTAGES: dict[str, Outage] = {
    "machine killed": killed,
    "worker killed": worker_killed,
    "machine frozen": frozen,
    "cut off": cut_off,
    "late return": late,
    "slow link": slow,
    "told to leave": told_to_leave,
    "another version": another_version,
}
RESTART = "search killed, and taken up again"
PARTITION = "partition"
KINDS = [*OUTAGES, RESTART, PARTITION]


async def trial(kind: str, folder: Path, seed: str) -> list[str]:
    """One search and what happens to it; gives what is wrong afterwards."""
    stage = Stage(folder, random.Random(seed))
    listener = TcpListener("127.0.0.1:0", read_token(stage.token), stage.token)
    try:
        async with asyncio.timeout(MOST_SECONDS):
            async with Search(
                TREE, strategy="sockets", workers=1, listener=listener, patience=PATIENCE
            ) as search:
                port = int(listener.address.rpartition(":")[2])
                machines = [await stage.machine(port) for _ in range(2)]
                await _served(search, stage.random.uniform(0.0, 0.6))
                await OUTAGES[kind](stage, machines[0])
                return wrong(await search.wait())
    except (TimeoutError, AssertionError) as error:
        return [str(error) or f"it hangs after {MOST_SECONDS:g} seconds"]
    finally:
        await stage.close()


async def _served(search: Search[object, object], share: float) -> None:
    """Waits until a machine has begun, and then until a share of the tree is explored."""
    while True:
        found = search.statistics()
        elsewhere = sum(one.nodes for one in found.workers[1:])
        done = found.nodes > share * TREE.nodes and elsewhere
        if done or found.nodes == TREE.nodes:
            return
        await asyncio.sleep(0.01)


def wrong(result: Result[object]) -> list[str]:
    found = []
    if result.statistics.nodes != TREE.nodes:
        found.append(f"{result.statistics.nodes} nodes, not {TREE.nodes}")
    if sorted(map(repr, result.solutions)) != sorted(map(repr, TREE.answers)):
        found.append(f"solutions {list(result.solutions)}")
    return found


async def restarted(folder: Path, seed: str) -> list[str]:
    """The search is killed; its machine finds the one that goes on from the journal."""
    stage = Stage(folder, random.Random(seed))
    journal = folder / "run.journal"
    journal.unlink(missing_ok=True)
    port = _free_port()
    words = ["--set", f"height={TREE.height}", "--journal", str(journal)]
    try:
        async with asyncio.timeout(MOST_SECONDS), _search(stage, port, *words) as first:
            await stage.machine(port)
            while not journal.exists():  # before that there is nothing to lose
                await asyncio.sleep(0.01)
            await asyncio.sleep(stage.random.uniform(0.0, 1.5))
            if first.returncode is None:
                first.kill()
            await first.communicate()
            async with _search(stage, port, "--journal", str(journal), "--resume") as again:
                _, told = await again.communicate()
        if f"nodes      {TREE.nodes:,} in".encode() not in told:
            return [told.decode()[-500:]]
        return []
    except TimeoutError:
        return [f"it hangs after {MOST_SECONDS:g} seconds"]
    finally:
        await stage.close()


async def parted(folder: Path, seed: str) -> tuple[list[str], int]:
    """Hosts are cut off for real; gives also how many of them were given up."""
    try:
        async with asyncio.timeout(MOST_SECONDS):
            return await partitioned(folder, seed, PATIENCE)
    except TimeoutError:
        return [f"it hangs after {MOST_SECONDS:g} seconds"], 0


@asynccontextmanager
async def _search(
    stage: Stage, port: int, *words: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    problem = () if "--resume" in words else ("aiosearch.workloads.shapes:Lopsided",)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiosearch", "search", *problem, *words, "--workers", "1"),
        *("--strategy", "sockets", "--listen", f"127.0.0.1:{port}"),
        *("--token-file", str(stage.token), "--patience", str(PATIENCE)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def run(each: int, seed: int, parallel: int, kinds: list[str]) -> int:
    """Runs the trials, some side by side; gives how many failed."""
    failed: Counter[str] = Counter()
    given_up: Counter[str] = Counter()
    turn = asyncio.Semaphore(parallel)
    started = time.monotonic()

    async def one(kind: str, number: int) -> None:
        async with turn:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                new_token(folder / "token")
                made = f"{seed} {kind} {number}"
                if kind == RESTART:
                    found = await restarted(folder, made)
                elif kind == PARTITION:
                    found, hosts = await parted(folder, made)
                    given_up[kind] += hosts
                else:
                    found = await trial(kind, folder, made)
            if found:
                failed[kind] += 1
                figure(f"outages: {kind}, trial {number}", len(found), "faults", found=found)

    await asyncio.gather(*(one(kind, number) for number in range(each) for kind in kinds))
    for kind in kinds:
        more = {"given_up": given_up[kind]} if kind == PARTITION else {}
        figure(f"outages: survived, {kind}", each - failed[kind], f"of {each}", target=each, **more)
    total = each * len(kinds)
    minutes = round((time.monotonic() - started) / 60, 1)
    survived = total - failed.total()
    figure("outages: survived", survived, f"of {total}", target=total, minutes=minutes)
    return failed.total()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--each", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--quick", action="store_true", help="two of each")
    options = parser.parse_args()
    each = 2 if options.quick else options.each
    kinds = options.kind or KINDS
    if PARTITION in kinds and (reason := forbidden()):
        figure(f"outages: survived, {PARTITION}", None, f"of {each}", reason=reason)
        kinds = [kind for kind in kinds if kind != PARTITION]
    sys.exit(1 if asyncio.run(run(each, options.seed, options.parallel, kinds)) else 0)


if __name__ == "__main__":
    main()
