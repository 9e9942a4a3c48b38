"""Three hosts, each in a network namespace, that are cut off from each other for real."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from testkit.hosts.network_namespaces import ForbiddenError, Host, network
from testkit.hosts.terminals import PATIENCE, Console, found, nodes, until

from aiosearch.workloads import Lopsided

TREE = "aiosearch.workloads.shapes:Lopsided"
HEIGHT = 40
"""Of a tree that lasts for as long as it takes to be given up."""
SHORT = 39
"""Of one whose search somebody can be asked about while it goes on."""


class Site:
    """A host that searches, and two that serve it."""

    def __init__(self, folder: Path, hosts: tuple[Host, ...]) -> None:
        self.hosts = hosts
        self.consoles = [Console(folder, host) for host in hosts]
        self.address = ""
        self.workers: list[subprocess.Popen[str]] = []

    def search(self, patience: float, height: int = HEIGHT) -> subprocess.Popen[str]:
        """Starts it on the first host, which only keeps the books, and workers on the others.

        Returns in the middle of it.
        """
        searching, *serving = self.consoles
        more = ("--patience", str(patience))
        process, self.address = searching.search(
            TREE, "--set", f"height={height}", "--workers", "0", *more
        )
        self.workers = [one.worker(self.address, "--workers", "1", *more) for one in serving]
        for worker in self.workers:
            found(worker.stderr, "serving")
        until(lambda: self.explored() > 0)
        return process

    def state(self) -> Any:
        """What the search says of itself, asked on its own host."""
        return self.consoles[0].status(self.address)

    def explored(self) -> int:
        return sum(one["nodes"] for one in self.state()["searches"])

    def serving(self) -> int:
        return len(self.state()["machines"])

    def close(self) -> None:
        for console in self.consoles:
            console.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    try:
        with network(3) as hosts:
            made = Site(tmp_path, hosts)
            yield made
            made.close()
    except ForbiddenError as error:
        pytest.skip(f"no network namespaces here: {error}")


def assert_complete(search: subprocess.Popen[str], height: int = HEIGHT) -> str:
    """Waits for its end; every node was explored once, and every solution told once."""
    _, told = search.communicate(timeout=PATIENCE)
    tree = Lopsided(height=height)
    assert search.returncode == 0, told
    assert nodes(told) == tree.nodes
    solutions = re.findall(r"^[-\d]+ [:\d]+  #\d+ +\S+ +(\d+)", told, re.MULTILINE)
    assert sorted(map(int, solutions)) == list(tree.answers)
    return told


def test_three_hosts_find_what_one_finds_and_a_fourth_console_sees_them(site: Site) -> None:
    search = site.search(patience=60, height=SHORT)
    state = site.consoles[2].status(site.address)
    where = [re.search(r"\((.+):\d+\)$", one["name"]) for one in state["machines"]]
    assert {one and one[1] for one in where} == {host.address for host in site.hosts[1:]}
    told = assert_complete(search, SHORT)
    assert "is gone" not in told
    for worker in site.workers:
        _, said = worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 0
        assert "the search is over" in said


CUTS: dict[str, Callable[[Host, Host], tuple[Callable[[], None], Callable[[], None]]]] = {
    "by the switch": lambda _, serving: (serving.cut_off, serving.join),
    "at its own end": lambda _, serving: (serving.unplug, serving.plug),
    "so that it only hears": lambda searching, serving: (
        partial(serving.mute, searching),
        partial(serving.unmute, searching),
    ),
    "so that it is only heard": lambda searching, serving: (
        partial(searching.mute, serving),
        partial(searching.unmute, serving),
    ),
}
"""Ways to cut off a host that serves another, each with the way back."""


@pytest.mark.parametrize("way", CUTS)
def test_a_host_that_is_cut_off_is_given_up_by_both_ends_and_nothing_is_lost(
    site: Site, way: str
) -> None:
    cut, mend = CUTS[way](*site.hosts[:2])
    search = site.search(patience=1)
    cut()
    until(lambda: site.serving() == 1)
    found(site.workers[0].stderr, "connecting again")
    mend()
    assert "is gone" in assert_complete(search)


def test_a_host_that_comes_back_serves_again_and_one_that_is_late_is_not_needed(
    site: Site,
) -> None:
    search = site.search(patience=1)
    _, back, late = site.hosts
    for host in (back, late):
        host.cut_off()
    until(lambda: site.serving() == 0)
    back.join()
    assert_complete(search)
    _, said = site.workers[0].communicate(timeout=PATIENCE)
    assert "connecting again" in said
    assert "the search is over" in said
    late.join()
    assert found(site.workers[1].stderr, "nobody listens")


def test_a_cut_shorter_than_the_patience_is_as_if_nothing_was(site: Site) -> None:
    search = site.search(patience=60)
    for host in site.hosts[1:]:
        host.cut_off()
    before = -1
    while before != (before := site.explored()):
        pass
    for host in site.hosts[1:]:
        host.join()
    assert "is gone" not in assert_complete(search)
    for worker in site.workers:
        _, said = worker.communicate(timeout=PATIENCE)
        assert "connecting again" not in said
        assert "the search is over" in said


def test_a_worker_that_calls_into_the_void_still_leaves_when_it_is_told_to(site: Site) -> None:
    site.search(patience=1)
    worker = site.workers[0]
    site.hosts[1].cut_off()
    found(worker.stderr, "connecting again")
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=PATIENCE)
    assert "did not answer" not in said


def test_nobody_listens_on_an_address_of_the_network_without_a_token(site: Site) -> None:
    address = f"{site.hosts[0].address}:0"
    search = site.consoles[0].start("search", TREE, "--strategy", "sockets", "--listen", address)
    output, told = search.communicate(timeout=PATIENCE)
    assert search.returncode == 2
    assert "needs a token file" in told
    assert output == ""
