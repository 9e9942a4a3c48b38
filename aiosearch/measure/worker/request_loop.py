"""The main loop of a process that compiles or times: its limits, messages and error reports."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import AiosearchError
from ...processes.frames import Channel, enter_child
from ..candidates import Cause
from ..errors import ExecutorError, says_out_of_memory
from ..gpu_compilation import LOST, explained, share, use_toolkit
from ..protocol import (
    ProcessBroken,
    ProcessReady,
    ProcessSettings,
    Raised,
    Reply,
    Request,
    decode_request,
    decode_settings,
    encode,
)
from .expendable import become_expendable


def serve(make: Callable[[ProcessSettings], Callable[[Request], Reply]]) -> None:
    """Answers requests, one after the other, until the host goes away or kills the process."""
    become_expendable()
    channel, (log, text) = enter_child()
    settings = decode_settings(text)
    _redirect(int(log))
    try:
        if settings.tuned:
            share(settings.tuned)
        _prepare_environment(settings.platform)
        ready = _find_device()
        handle = make(settings)
        if settings.platform == "cpu":
            _limit_memory(settings.memory_mb)
    except Exception as error:  # a library that does not load raises what it likes
        channel.send(encode(ProcessBroken(_one_line(error))))
        return
    channel.send(encode(ready))
    try:
        while True:
            _answer(channel, handle)
    except (EOFError, ConnectionError):
        return


def _answer(channel: Channel, handle: Callable[[Request], Reply]) -> None:
    for payload in channel.receive():
        try:
            reply = handle(decode_request(payload))
        except Exception as error:
            reply = Raised(_cause(error), _one_line(error))
        channel.send(encode(reply))


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Ends the process by SIGALRM, whatever it is at, when the body takes longer.

    The kernel does it: neither a lock of the interpreter nor a busy compiler can hold it up.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _redirect(log: int) -> None:
    """Sends what a candidate or the compiler prints to the `log`, for the host to quote from."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _prepare_environment(platform: str) -> None:
    os.environ["JAX_PLATFORMS"] = platform
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    if platform == "cuda":
        use_toolkit()
    if jax := sys.modules.get("jax"):  # a fork server has imported it: it has read these already
        jax.config.update("jax_platforms", platform)
        jax.config.update("jax_enable_compilation_cache", False)
    # A handler in Python would wait for the interpreter, which may never come back
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if sys.platform == "linux":
        # Where memory runs out, the kernel takes this process first
        Path("/proc/self/oom_score_adj").write_text("1000")


def _find_device() -> ProcessReady:
    import jax

    from ...pool import usable_cores

    try:
        device = jax.devices()[0]
    except AssertionError:  # jax's own, without a word, where a platform has no device
        raise ExecutorError(f"jax finds none ({LOST})") from None
    return ProcessReady(device.device_kind, usable_cores(), f"jax {jax.__version__}")


def _limit_memory(megabytes: int) -> None:
    """Makes allocations beyond the limit fail; what is mapped already does not count."""
    sizes = [line for line in _status() if line.startswith("VmData:")]
    if sizes:
        limit = int(sizes[0].split()[1]) * 1024 + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _status() -> list[str]:
    try:
        return Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return []


def _cause(error: Exception) -> Cause:
    lacking = isinstance(error, MemoryError) or says_out_of_memory(str(error))
    return Cause.MEMORY if lacking else Cause.RAISED


def _one_line(error: Exception) -> str:
    if isinstance(error, AiosearchError):  # a sentence
        return str(error)
    lines = str(error).strip().splitlines()
    return explained(f"{type(error).__name__}: {lines[0]}") if lines else type(error).__name__
