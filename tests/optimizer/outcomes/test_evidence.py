"""The evidence of an answer on disk."""

from __future__ import annotations

from typing import Any

import msgspec
from answers import answer

from aiosearch.optimizer.outcomes.answer import Answer
from aiosearch.optimizer.outcomes.evidence import Evidence

TIMES = {
    "original": 9e-4, "answer": 9e-5, "speedup": 10.0, "low": 9.0, "high": 11.0,
    "original_cpu": 1.8e-3, "answer_cpu": 2.7e-4,
}  # fmt: skip
TRIAL = {
    "how": "as written", "seconds": 9e-4, "speedup": 1.0, "note": "", "verdict": "", "low": 8e-4,
    "high": 1e-3, "won": False,
}  # fmt: skip
OF_A_PROGRAM: dict[str, Any] = {
    "flops": 128, "bytes": 768, "kinds": ["float32"], "original_error_ulp": 0.5,
    "answer_error_ulp": 0.75, "newly_defined": 0, "packed_bytes": 4096, "program": "f(x) = x",
    "timed_on": "normal inputs", "ways": {"hot": TIMES}, "tried": [TRIAL], "speedup": 10.0,
    "speedup_over_plain": 1.4,
}  # fmt: skip
OF_A_CALL = {"speedup": 2.0, "between": [1.5, 2.5], "queued": 1.1, "queued_between": [1.0, 1.2]}
OF_A_WHOLE = {"speedup": 1.0, "kept": [], "ways": {"hot": TIMES}}


def stored(evidence: dict[str, Any]) -> bytes:
    """An answer as 0.1.0 wrote it, whose evidence was a free map."""
    return msgspec.msgpack.encode({**msgspec.to_builtins(answer()), "evidence": evidence})


def test_what_0_1_0_wrote_is_read_and_written_with_the_same_keys_and_values() -> None:
    for evidence in (OF_A_PROGRAM, OF_A_CALL, OF_A_WHOLE, {}):
        read = msgspec.msgpack.decode(stored(evidence), type=Answer)
        again = msgspec.msgpack.decode(msgspec.msgpack.encode(read))
        for trial in again["evidence"].get("tried", ()):
            assert trial.pop("schedule") == ""  # a later version's
        assert again["evidence"] == evidence


def test_a_key_of_a_later_version_does_not_hide_an_answer() -> None:
    read = msgspec.msgpack.decode(stored({"speedup": 2.0, "joules": 3.0}), type=Answer)
    assert read.evidence == Evidence(speedup=2.0)
    assert read.speedup == 2.0
