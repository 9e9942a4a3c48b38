"""Kernels that do what they must not, tried out in a process of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_texts import (
    calling_nowhere,
    endless,
    forgetting,
    keeping,
    reading,
    reversing,
    writing,
)

from aiosearch.codegen.native import trial
from aiosearch.codegen.native.compiling import compiled, compiled_handler
from aiosearch.codegen.native.errors import NativeError
from aiosearch.codegen.native.machine import host
from aiosearch.codegen.native.native import Native, Phase
from aiosearch.codegen.native.trial import Trial, tried_elsewhere


def tried(native: Native) -> None:
    tried_elsewhere(Trial(native, compiled(native, host()), compiled_handler(host())))


def beyond_scratch() -> Native:
    """Writes behind its scratch memory."""
    return replace(keeping(10), phases=(Phase(10, 64),))


def beyond_temporary() -> Native:
    """Writes behind its temporary."""
    return replace(reversing(64), temporaries=(4 * 48,))


@pytest.mark.parametrize(
    "native",
    [
        reading(1000, 1),
        reading(1000, -1),
        writing(1000, 1),
        writing(1000, 0, "a"),
        beyond_scratch(),
        beyond_temporary(),
    ],
)
def test_out_of_bounds(native: Native) -> None:
    """Whoever touches an element beside its arrays, or writes to an input, does not pass."""
    with pytest.raises(NativeError, match=r"outside of its arrays: it died of SIG(SEGV|BUS)"):
        tried(native)


def test_good_ones_pass() -> None:
    """A kernel that harms nothing passes."""
    tried(reversing(1000))


def test_what_is_said_of_others() -> None:
    """The reason comes back from the process."""
    with pytest.raises(
        NativeError, match=r"forgetting gave two different o: f32\[10\] for the same"
    ):
        tried(forgetting(10))
    with pytest.raises(
        NativeError, match=r"not found: \[ nowhere \].*the kernel calling cannot be loaded"
    ):
        tried(calling_nowhere())


def test_endless_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that does not end is stopped."""
    monkeypatch.setattr(trial, "SECONDS", 1.0)
    with pytest.raises(NativeError, match="the kernel endless did not end in 1 s"):
        tried(endless())
