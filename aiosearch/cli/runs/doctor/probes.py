"""The probes of `aiosearch doctor` and their findings: no probe raises or waits for ever.

What `aiosearch doctor` looks at. No probe raises, and none waits for ever.
"""

from __future__ import annotations

import asyncio
import enum
import fcntl
import os
import platform
import re
import struct
import sys
import time
from importlib import metadata
from pathlib import Path

from msgspec import Struct

from ....errors import AiosearchError
from ....folders import nearest_above
from ....pool import usable_cores
from ...output.units import duration, of, size


class FindingState(enum.StrEnum):
    """How something stands."""

    FINE = "ok"
    MISSING = "missing"
    BROKEN = "broken"


class DoctorFinding(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    detail: str
    state: FindingState = FindingState.FINE
    remedy: str = ""
    """What to do about it."""
    essential: bool = False
    """Whether no search can run without it."""


def broken(name: str, detail: str, remedy: str, *, essential: bool = False) -> DoctorFinding:
    return DoctorFinding(name, detail, FindingState.BROKEN, remedy, essential)


def missing(name: str, detail: str, remedy: str, *, essential: bool = False) -> DoctorFinding:
    return DoctorFinding(name, detail, FindingState.MISSING, remedy, essential)


SECONDS = 30.0
"""How long a probe that starts a process may take."""
_SLOW = "look for what keeps this machine busy, and try again"
_OPTIONAL = {"cloudpickle": "problems that are defined in a notebook need it for their workers"}
_ASK_JAX = "import jax; print(', '.join(map(str, jax.devices())))"


def machine() -> list[DoctorFinding]:
    """Names the interpreter and the machine."""
    python = f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return [
        DoctorFinding("python", python),
        DoctorFinding("platform", system),
        DoctorFinding("cores", f"{usable_cores()} usable of {os.cpu_count()}"),
        DoctorFinding("memory", _memory()),
    ]


def distributions() -> list[DoctorFinding]:
    """Gives the versions of aiosearch and of what it needs, as they are installed."""
    try:
        requirements = metadata.requires("aiosearch") or []
    except metadata.PackageNotFoundError:
        remedy = "pip install aiosearch"
        return [missing("aiosearch", "it runs from a folder, and is not installed", remedy)]
    always = [text for text in requirements if not re.search(r";.*\bextra\b", text)]
    needed = [match[0] for text in always if (match := re.match(r"[\w.-]+", text))]
    return [distribution(name) for name in ("aiosearch", *needed, *_OPTIONAL)]


def distribution(name: str) -> DoctorFinding:
    """Gives the version of one."""
    try:
        return DoctorFinding(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return missing(name, _OPTIONAL.get(name, "aiosearch needs it"), f"pip install {name}")


def kernel() -> list[DoctorFinding]:
    """Says which of the system's abilities there are; each has a slower or weaker stand-in."""
    without = "Linux has it; elsewhere something slower takes its place"
    able = {
        "memfd": hasattr(os, "memfd_create"),
        "pidfd": _has_pidfd(),
        "OFD locks": _has_ofd_locks(),
    }
    return [
        DoctorFinding(name, "available") if there else missing(name, "not available", without)
        for name, there in able.items()
    ]


def strategies() -> list[DoctorFinding]:
    """Loads every installed strategy."""
    from ....strategies.registry import list_strategies

    return [
        broken(f"strategy {info.name}", info.error, "install versions that match, or remove it")
        if info.error
        else DoctorFinding(f"strategy {info.name}", info.origin)
        for info in list_strategies()
    ]


def cache() -> DoctorFinding:
    """Reads the file of verdicts."""
    from ....checks import cache_stats
    from ...commands.cache import cache_path

    try:
        path = cache_path()
        if path is None:
            return DoctorFinding("cache", "turned off by the settings")
        if obstacle := _obstacle(path):
            remedy = "make it one that you may write to, or name another one in XDG_CACHE_HOME"
            return broken("cache", f"nothing is remembered: {obstacle}", remedy)
        stats = cache_stats(path)
    except AiosearchError as error:
        return broken("cache", str(error), "remove the file, or name another one with --cache")
    if not stats.size:
        return DoctorFinding("cache", f"{stats.path}, not begun")
    return DoctorFinding("cache", f"{stats.path}, {stats.entries:,} verdicts, {size(stats.size)}")


def _obstacle(path: Path) -> str:
    """Why there can be no file of this name; nothing where there can."""
    there = nearest_above(path)
    if not os.path.isdir(there):
        return f"{there} is no folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{there} is not yours to write to"


def settings() -> DoctorFinding:
    """Reads the settings of this folder."""
    from ...inputs.settings import settle

    try:
        chosen = settle({})
    except AiosearchError as error:
        return broken("settings", str(error), "correct it, and look with --show-settings")
    changed = [
        f"{name} by {setting.origin}"
        for name, setting in chosen.items()
        if setting.origin != "default"
    ]
    return DoctorFinding("settings", "; ".join(changed) or "all are the defaults")


async def worker() -> DoctorFinding:
    """Runs a tiny search on a worker process."""
    from ....search import Search
    from ....workloads.queens import Queens

    started = time.monotonic()
    try:
        async with asyncio.timeout(SECONDS), Search(Queens(4), workers=1, cache=None) as search:
            result = await search.wait()
    except TimeoutError:
        return broken("worker", f"no answer in {SECONDS:g}s", _SLOW, essential=True)
    except Exception as error:
        return broken("worker", str(error), "see the lines above it", essential=True)
    took = duration(time.monotonic() - started)
    detail = (
        f"a search on a process of its own took {took}, {of(len(result.solutions), 'solution')}"
    )
    return DoctorFinding("worker", detail, essential=True)


async def z3() -> DoctorFinding:
    """Has one question answered by a z3 process."""
    from ....checks import Status, Verifier
    from ....problem import Obligation

    question = Obligation("(declare-const x Int) (assert (< x x))")
    remedy = "pip install --force-reinstall z3-solver"
    started = time.monotonic()
    try:
        async with asyncio.timeout(SECONDS), Verifier(cache=None) as verifier:
            verdict = await verifier.check(question)
    except TimeoutError:
        return broken("z3", f"no answer in {SECONDS:g}s", _SLOW, essential=True)
    except Exception as error:
        return broken("z3", str(error), remedy, essential=True)
    if verdict.status is not Status.PROVED:
        return broken("z3", f"x < x is {verdict.status}", remedy, essential=True)
    took = duration(time.monotonic() - started)
    return DoctorFinding("z3", f"a proof in a process of its own took {took}", essential=True)


async def jax() -> DoctorFinding:
    """Asks a process of its own for jax's devices, so that none of their memory stays taken."""
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _ASK_JAX,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        limits = "end what else runs here, or raise the limits that `ulimit -a` tells"
        return broken("jax devices", f"cannot start a process: {error}", limits)
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return broken("jax devices", f"no answer in {SECONDS:g}s", _SLOW)
    if process.returncode:
        reason = err.decode(errors="replace").strip().rpartition("\n")[2]
        return broken("jax devices", reason, "pip install jax, or set JAX_PLATFORMS=cpu")
    return DoctorFinding("jax devices", out.decode().strip())


def _memory() -> str:
    whole = size(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        facts = Path("/proc/meminfo").read_text()
    except OSError:
        return whole
    match = re.search(r"MemAvailable:\s+(\d+) kB", facts)
    return f"{whole}, {size(int(match[1]) * 1024)} available" if match else whole


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def _has_ofd_locks() -> bool:
    """Tries one: a kernel may know the name and refuse the call."""
    try:
        fd = os.memfd_create("aiosearch-doctor")
    except (AttributeError, OSError):
        return False
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))
    except (AttributeError, OSError):
        return False
    finally:
        os.close(fd)
    return True
