from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.processes.frames import Frames, frame


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(1, 100)))
def test_frames_survive_any_cut(payloads: list[bytes], cuts: list[int]) -> None:
    """However a stream arrives, the frames in it come out whole and in order."""
    stream = b"".join(map(frame, payloads))
    frames = Frames()
    found = []
    for cut in cuts:
        found += frames.feed(stream[:cut])
        stream = stream[cut:]
    found += frames.feed(stream)
    assert found == payloads


def test_nonsense_is_refused() -> None:
    """A length that no frame has ends the conversation, and no memory is taken for it."""
    with pytest.raises(ValueError, match="is not a frame"):
        Frames().feed(b"\xff\xff\xff\xff")
