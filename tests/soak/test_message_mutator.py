"""The mutator finds what only an odd message of the right form brings to light."""

from __future__ import annotations

from functools import partial
from random import Random

import msgspec
from message_mutator import Coverage, Mutator

from aiosearch.remote import protocol

FRAMES = 20_000
SEEDS = [
    protocol.encode(protocol.Spawned(1, 1234)),
    protocol.encode(protocol.ProcessGone(2, "it ended")),
    protocol.encode(protocol.Pulse()),
]


def planted(frame: bytes) -> object:
    """Handles a message with a mistake for one in which number and text are both odd."""
    try:
        message = protocol.decode_from_agent(frame)
    except (msgspec.DecodeError, ValueError) as error:
        return type(error)
    if isinstance(message, protocol.ProcessGone) and message.channel > 1 << 39:
        letters = message.reason.replace("it ended", "")
        if len(message.reason) > 2 and letters:
            raise ZeroDivisionError
    return type(message)


def test_a_planted_mistake_is_found() -> None:
    """So that a fuzzer which finds nothing has looked."""
    mutator, coverage = Mutator(Random(1), SEEDS), Coverage("test_message_mutator.py")
    found = 0
    for _ in range(FRAMES):
        frame = mutator.frame()
        try:
            if coverage.run(partial(planted, frame)):
                mutator.keep(frame, good=True)
        except ZeroDivisionError:
            found += 1
    assert found > 0


def test_the_same_seed_makes_the_same_frames_and_few_of_them_twice() -> None:
    first, second = Mutator(Random(7), SEEDS), Mutator(Random(7), SEEDS)
    made = [first.frame() for _ in range(1000)]
    assert made == [second.frame() for _ in range(1000)]
    assert len(set(made)) > 500


def test_only_what_is_new_counts_as_new() -> None:
    coverage = Coverage("test_message_mutator.py")
    pulse = protocol.encode(protocol.Pulse())
    assert coverage.run(partial(planted, pulse))
    assert not coverage.run(partial(planted, pulse))
    assert coverage.run(partial(planted, b"\xc1"))
