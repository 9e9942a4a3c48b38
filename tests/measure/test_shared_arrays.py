"""Arrays in the file that two processes share."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from aiosearch.measure import ExecutorError
from aiosearch.measure.shared_arrays import NOBODY, SharedArrays, nameless_file


@pytest.fixture
def box() -> Iterator[SharedArrays]:
    fd = nameless_file("test")
    yield SharedArrays(fd)
    os.close(fd)


shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
one = st.sampled_from(["f4", "f8", "i4", "?", "c8"]).flatmap(lambda d: arrays.arrays(d, shapes))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(one, max_size=4))
def test_what_is_put_in_is_taken_out(box: SharedArrays, load: list[np.ndarray]) -> None:
    """Arrays of all types and shapes, empty ones too, come out bit by bit."""
    for array, parcel in zip(load, box.put(load), strict=True):
        found = box.take(parcel)
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tobytes() == array.tobytes()
        assert parcel.offset % 64 == 0


def test_strides_do_not_matter(box: SharedArrays) -> None:
    """A transposed array arrives as it reads."""
    array = np.arange(12.0).reshape(3, 4).T
    (parcel,) = box.put([array])
    assert np.array_equal(box.take(parcel), array)


def test_who_runs(box: SharedArrays) -> None:
    """The latest announcement is what is read, from the start and beside arrays."""
    assert box.announced() == NOBODY
    box.announce(3)
    (parcel,) = box.put([np.ones(5)])
    assert box.announced() == 3
    box.announce(NOBODY)
    assert box.announced() == NOBODY
    assert box.take(parcel).sum() == 5


def test_an_empty_box_has_nothing(box: SharedArrays) -> None:
    """What was let go is not read as zeros."""
    (parcel,) = box.put([np.ones(5)])
    box.empty()
    with pytest.raises(EOFError, match="holds less"):
        box.take(parcel)


def test_what_has_no_room_is_said_with_what_to_do(box: SharedArrays) -> None:
    """Where files may not grow so far; what was written of it takes no room any more."""
    box.put([np.ones(5)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
    try:
        with pytest.raises(ExecutorError, match=r"a file of 12096 bytes: .*`ulimit -f`"):
            box.put([np.zeros(1000)])
        assert os.fstat(box.fd).st_size <= 4096
        box.announce(3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert box.announced() == 3
