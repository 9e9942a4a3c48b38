"""The connection to Ray: whatever of it blocks runs in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from aiosearch import AiosearchError
from aiosearch.remote.links import LostError
from aiosearch.remote.notebooks import Verdicts

from . import notes

T = TypeVar("T")
REACH_SECONDS = 5.0
"""Seconds that a cluster may take to accept a connection."""
NAMESPACE = "aiosearch"
"""The Ray namespace in which named actors are found, whatever a user's own is."""


class RayNode(Struct, frozen=True):
    """A machine of the cluster."""

    id: str
    name: str
    cpus: int


class Actor(Protocol):
    """A `HostActor`, from afar; its calls raise `LostError` where it is gone."""

    async def collect(self) -> list[bytes]: ...
    async def deliver(self, batch: list[bytes]) -> None: ...


class Cluster:
    """Ray as this process uses it: connected to where it is not, and let go of by whoever did."""

    def __init__(self, address: str | None) -> None:
        if address is not None and address.startswith("ray://"):
            raise AiosearchError(
                f"a Ray client cannot search: run this on a machine of the cluster, not with"
                f" {address}"
            )
        self._wanted = address
        self._ours = False
        self._closed = False
        self.address = ""
        # What Ray starts ends with the thread that started it, so that it has to stay
        self._thread = ThreadPoolExecutor(1, "aiosearch-ray")

    async def open(self) -> None:
        """Connects, or starts Ray on this machine; raises `AiosearchError` where it cannot."""
        if self._wanted is not None and ":" in self._wanted:
            await _reach(self._wanted)
        terminate = signal.getsignal(signal.SIGTERM)
        await self._call(self._open)
        # Ray has put itself before it, to print a stack that nobody wants to see
        if terminate is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, terminate)

    async def nodes(self) -> list[RayNode]:
        """The machines that are there now and have processors."""
        return await self._call(_nodes)

    async def place(self, node: RayNode, cpus: int, notes: str) -> RemoteActor:
        """Asks for a `HostActor` on a node; it runs as soon as so many processors are free
        there.

        `notes` is the name of the actor that keeps what the search has found.
        """
        return await self._call(lambda: _place(node, cpus, notes))

    async def notes(self, name: str, keep: bool) -> RemoteNotes:
        """The actor of this name that keeps what searches found, made where it is not there.

        It goes with this connection, unless somebody wants to `keep` it.
        """
        return await self._call(lambda: _notes(name, keep))

    async def kill(self, actor: RemoteActor | RemoteNotes) -> None:
        """Ends an actor, and with it the processes that it started. Safe to call twice."""
        await self._call(lambda: _ray().kill(actor.handle))

    async def close(self) -> None:
        """Disconnects, and stops a Ray that was started here. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await self._call(self._close)  # in the thread, and so after `open`, waited for or not
            self._thread.shutdown(wait=False)

    def _open(self) -> None:
        ray = _ray()
        if not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a search tells nobody
            try:
                ray.init(
                    self._wanted,
                    # A search needs neither a dashboard nor Ray's log on its terminal
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except (OSError, ValueError, RuntimeError) as error:
                raise AiosearchError(f"no Ray cluster: {error}") from None
            self._ours = True
        self.address = ray.get_runtime_context().gcs_address

    def _close(self) -> None:
        if self._ours:
            _ray().shutdown()

    async def _call(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class RemoteActor:
    """An actor by its handle."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    async def collect(self) -> list[bytes]:
        batch: list[bytes] = await _answer(self.handle.collect.remote())
        return batch

    async def deliver(self, batch: list[bytes]) -> None:
        await _answer(self.handle.deliver.remote(batch))


class RemoteNotes:
    """The `Notes` actor, by its handle; its calls raise `LostError` where it is gone."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    async def write(self, verdicts: bytes, standings: bytes) -> None:
        await _answer(self.handle.write.remote(verdicts, standings))

    async def read(self, start: int) -> bytes:
        part: bytes = await _answer(self.handle.read.remote(start))
        return part


async def recall(name: str) -> AsyncIterator[Verdicts]:
    """What the actor of this name knows of z3's answers; nothing where it is lost: then the search
    answers, and has another one made."""
    try:
        handle = await asyncio.to_thread(_ray().get_actor, name, namespace=NAMESPACE)
        async for part in notes.parts(RemoteNotes(handle)):
            yield notes.decided(part)
    except (LostError, ValueError):
        return


async def _reach(address: str) -> None:
    """Raises `AiosearchError` where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(REACH_SECONDS):
            _, writer = await asyncio.open_connection(host, int(port))
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        raise AiosearchError(f"no Ray cluster answers at {address}") from error
    writer.close()
    await writer.wait_closed()


async def _answer(call: Any) -> Any:
    try:
        return await call
    except _ray().exceptions.RayError as error:
        raise LostError(_error_text(error)) from None


def _error_text(error: Exception) -> str:
    """The part of Ray's paragraphs to quote: the first line says what happened, the last what
    was raised."""
    lines = str(error).strip().splitlines()
    raised = getattr(error, "actor_init_failed", False)
    return lines[-1 if raised else 0]


def _nodes() -> list[RayNode]:
    nodes = [
        RayNode(node["NodeID"], node["NodeManagerHostname"], int(node["Resources"].get("CPU", 0)))
        for node in _ray().nodes()
        if node["Alive"]
    ]
    return [node for node in nodes if node.cpus]


def _place(node: RayNode, cpus: int, notes: str) -> RemoteActor:
    from .actor import HostActor

    ray = _ray()
    # Hard affinity: the actor stands for this node, and elsewhere it would serve twice
    there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
    actor_class = ray.remote(HostActor).options(num_cpus=cpus, scheduling_strategy=there)
    return RemoteActor(actor_class.remote(cpus, node.name, notes))


def _notes(name: str, keep: bool) -> RemoteNotes:
    ray = _ray()
    node = ray.get_runtime_context().get_node_id()  # others are the first to be scaled away
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=True)
    actor_class = ray.remote(notes.Notes).options(
        name=name,
        namespace=NAMESPACE,
        get_if_exists=True,
        lifetime="detached" if keep else None,
        num_cpus=0,
        scheduling_strategy=here,
    )
    return RemoteNotes(actor_class.remote())


def _ray() -> Any:
    """Imports Ray, which takes a second: only those wait for it who search with it."""
    import ray.util.scheduling_strategies

    return ray
