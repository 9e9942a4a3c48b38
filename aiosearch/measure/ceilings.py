"""What a machine can do at best, by a fixed protocol: bytes from memory, operations, products.

The problem: "80 % of what this machine can do" needs a second number that anybody can reproduce. So
a few functions whose work is known are timed as candidates are, and the work divided by the fastest
round is the ceiling. For 32 MB of last-level cache `read` goes over 4 * 32 MB; done in 1.4 ms, that
is 96 GB/s.

The fastest round and not the median: a ceiling is what the machine can do, and whatever else runs
there only takes from it. How disturbed the machine was is kept as `noise`, and a figure with more
than `NOISIEST` is none. Printed by `aiosearch doctor --measure`.
"""

from __future__ import annotations

import platform as system
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ..folders import cache_folder, make_folder, replace_file
from ..pool import usable_cores
from .candidates import ArrayType, Candidate, Failure
from .errors import ExecutorError
from .processor import last_cache, processor
from .race import Samples, Way

if TYPE_CHECKING:
    from .host.jax_executor import JaxExecutor

PROTOCOL = 2
"""Counts up when figures stop being comparable, so that old files are not read."""
HOW = """\
read: the largest of each column of a float32 buffer of four times the last cache;
triad: a = b + s * c over float32 buffers as large, 2 to 8 sweeps a call, two of them read and one
written, where it does not count that a cache reads a line before it writes it;
memory's ceiling is the faster of the two;
fma: 12 independent chains of 32 multiply-adds on each of 262,144 float32 elements;
product: two square matrices of 2,048 rows. Each is jax's own code, and the fastest of 7 rounds
counts, waited for, after calls that do not count."""
ROUNDS = 7
NOISIEST = 0.5
"""Figures with more noise than this are none: the machine was not this process's alone."""

_PARTS, _LANES = 256, 256
"""Parts of what is read, for threads to share; and columns of each, for vectors."""
_FEWEST, _MOST, _MOVED = 2, 8, 1 << 30
"""Sweeps of a triad at least and at most, and bytes that they move otherwise: caches of servers are
large."""
# Twelve independent chains hide the latency of a multiply-add on every core so far (4 cycles, 2 a
# cycle); 262,144 elements of 4 bytes stay in the caches
_CHAINS, _LINKS, _ELEMENTS = 12, 32, 1 << 18
# 2 * 2048**3 operations: large enough for a library's blocking to pay off, small enough for seconds
_ROWS = 2048
_SOURCE = f"""\
import jax
import jax.numpy as jnp


def read(x):
    return x.max(axis=1)


def triad(b, c):
    def sweep(i, a):
        return b + (1.0 + i) * c

    return jax.lax.fori_loop(0, {{sweeps}}, sweep, jnp.zeros_like(b))


def fma(x):
    chains = [x + i for i in range({_CHAINS})]
    for _ in range({_LINKS}):
        chains = [0.999 * each + 0.001 for each in chains]
    return sum(chains)


def product(x, y):
    return x @ y
"""


class Ceilings(Struct, frozen=True):
    """The figures of one device of one machine."""

    machine: str
    platform: str
    device: str
    cores: int
    """Cores of the host, as many as this process could use."""
    versions: str
    protocol: int
    taken: str
    """When, in UTC, in ISO 8601."""
    bytes_per_second: float
    """From or to memory, the faster of the two in `sweeps`."""
    flops_per_second: dict[str, float]
    """By element type: of the `product`, or for float32 of the `fma`, whichever was faster."""
    noise: float
    """How far from equal the same thing, timed twice, seemed at most: 0.05 is five percent."""
    sweeps: dict[str, float] = {}
    """Bytes per second of the `read`, one buffer, and of the `triad`, two read and one written.

    Files of older protocols have none.
    """

    def fastest(self, dtype: str) -> float:
        """Operations per second of products of a type: those of bfloat16 can be made of
        float32, if need be."""
        products_per_second = self.flops_per_second[dtype]
        return (
            max(products_per_second, self.flops_per_second["float32"])
            if dtype == "bfloat16"
            else products_per_second
        )


async def measure_ceilings(executor: JaxExecutor) -> Ceilings:
    """Runs the protocol on an executor that times `Way.HOT` only. Takes some half a minute."""
    noises = []
    rates = {}
    for work, candidate in _protocol(last_cache(executor.platform)):
        samples, heard = await _best(executor, candidate)
        # The fastest round: whatever else ran can only have made the others slower
        rates[candidate.name] = work / min(samples.wall)
        noises.append(heard)
    sweeps = {name: rates[name] for name in ("read", "triad")}
    flops = {
        "float32": max(rates["fma"], rates["float32"]),
        "bfloat16": rates["bfloat16"],
    }
    return _ceilings(executor, sweeps, flops, max(noises))


def _protocol(cache: int) -> Iterator[tuple[int, Candidate]]:
    """What is timed, and how many bytes or operations each call of it is."""
    whole = _PARTS * _LANES
    # A whole number of parts and lanes, so that no remainder loop is timed
    length = max(1, cache // whole) * whole  # four caches, for elements have four bytes
    parted = ArrayType("float32", (_PARTS, length // whole, _LANES))
    flat = ArrayType("float32", (length,))
    sweeps = max(_FEWEST, min(_MOST, _MOVED // (3 * 4 * length)))
    for name, function, inputs, work in (
        ("read", "read", (parted,), 4 * length),
        # The last sweep's result is written to a fresh buffer, hence the one more than three a
        # sweep
        ("triad", "triad", (flat, flat), 4 * length * (3 * sweeps + 1)),
        ("fma", "fma", (ArrayType("float32", (_ELEMENTS,)),), 2 * _CHAINS * _LINKS * _ELEMENTS),
        ("float32", "product", _square("float32"), 2 * _ROWS**3),
        ("bfloat16", "product", _square("bfloat16"), 2 * _ROWS**3),
    ):
        yield work, Candidate(name, _SOURCE.format(sweeps=sweeps), function, inputs)


def machine_id() -> str:
    """Names this machine by what its figures depend on."""
    facts = f"{system.machine()} {processor()} {usable_cores()} {last_cache('cpu')}"
    return blake2b(facts.encode(), digest_size=8).hexdigest()


def ceilings_path() -> Path:
    """Gives the path of `ceilings.json` in the user's cache directory."""
    return cache_folder() / "ceilings.json"


def stored_ceilings(path: Path | None = None) -> tuple[Ceilings, ...]:
    """Gives what was measured on this machine by this `PROTOCOL`; nothing if the file is
    damaged.

    Figures with more noise than `NOISIEST` are left out: others used the machine.
    """
    return tuple(
        ceilings
        for ceilings in _stored(path or ceilings_path())
        if ceilings.machine == machine_id()
        and ceilings.protocol == PROTOCOL
        and ceilings.noise <= NOISIEST
    )


def store_ceilings(ceilings: Ceilings, path: Path | None = None) -> None:
    """Puts figures in place of older ones of the same device. The file is whole at any time."""
    path = path or ceilings_path()
    remaining = [stored for stored in _stored(path) if _subject(stored) != _subject(ceilings)]
    make_folder(path.parent)
    replace_file(path, msgspec.json.format(msgspec.json.encode([*remaining, ceilings])))


def _square(dtype: str) -> tuple[ArrayType, ArrayType]:
    return (ArrayType(dtype, (_ROWS, _ROWS)),) * 2


async def _best(executor: JaxExecutor, candidate: Candidate) -> tuple[Samples, float]:
    compiled = await executor.compile(candidate)
    if isinstance(compiled, Failure):
        raise ExecutorError(str(compiled))
    race = await executor.race([compiled], rounds=ROUNDS)
    (lap,) = race.laps
    if lap.failure is not None:
        raise ExecutorError(str(lap.failure))
    return lap.samples[Way.HOT], race.noise(way=Way.HOT) or 0.0


def _ceilings(
    executor: JaxExecutor, sweeps: dict[str, float], flops: dict[str, float], noise: float
) -> Ceilings:
    device = executor.device
    return Ceilings(
        machine=machine_id(),
        platform=executor.platform,
        device=device.device,
        cores=device.cores,
        versions=device.versions,
        protocol=PROTOCOL,
        taken=datetime.now(UTC).isoformat(timespec="seconds"),
        bytes_per_second=max(sweeps.values()),
        flops_per_second=flops,
        noise=noise,
        sweeps=sweeps,
    )


def _stored(path: Path) -> list[Ceilings]:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(path.read_bytes(), type=list[Ceilings])
    return []


def _subject(ceilings: Ceilings) -> tuple[str, str, str]:
    return ceilings.machine, ceilings.platform, ceilings.device
