"""Whether a winner is proved: both functions as tensor programs, and the judge of those.

Capturing runs a user's Python and proving may take long, so it happens in a process that is killed
when its time is up: `python -m aiosearch.tuner.proofs`, with what to compare as JSON on its stdin.
What cannot be captured, such as a loop or a kernel of Pallas, stays tested.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import msgspec
from msgspec import Struct

from .kernels import (
    ArgumentType,
    KernelCall,
    call_text,
    origin_of,
    placeholders,
    search_path,
    source_head,
)
from .types import Configuration, Function, Options

SECONDS = 20.0


class ProofRequest(Struct, frozen=True):
    """Two functions as source text, which defines `function`, and what they are called on."""

    reference: str
    candidate: str
    types: tuple[ArgumentType, ...]


class Verification(Struct, frozen=True):
    """What the judge said: its status, and for what that holds or why it does not."""

    status: str
    scope: str


async def verified(
    reference: Function,
    function: Function,
    call: KernelCall,
    configuration: Options,
    seconds: float = SECONDS,
) -> Verification | None:
    """Asks for a proof that a configuration computes what the reference does.

    None where the functions cannot be imported elsewhere, are no tensor programs, or time is up.
    """
    texts = (_text(reference, call, {}), _text(function, call, configuration))
    if texts[0] is None or texts[1] is None:
        return None
    claim = msgspec.json.encode(ProofRequest(texts[0], texts[1], call.types))
    # Not asyncio's own: uvloop forks for that, which a process with jax in it should not.
    process = subprocess.Popen(  # noqa: ASYNC220, which it starts in a millisecond
        [sys.executable, "-m", "aiosearch.tuner.proofs"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    answer = asyncio.create_task(asyncio.to_thread(process.communicate, claim))
    try:
        output, _ = await asyncio.wait_for(asyncio.shield(answer), seconds)
    except TimeoutError:
        return None
    finally:
        process.kill()  # ends the thread that waits for it, too
        await asyncio.wait([answer])
    lines = output.splitlines()
    try:
        return msgspec.json.decode(lines[-1], type=Verification) if lines else None
    except msgspec.DecodeError:
        return None


def _text(function: Function, call: KernelCall, configuration: Options) -> str | None:
    origin = origin_of(function)
    if origin is None:
        return None
    arguments = call_text(KernelCall(call.arguments, {**call.keywords, **configuration}))
    head = source_head(origin, search_path())
    return f"{head}\ndef function(*leaves):\n    return _function({arguments})\n"


def main() -> None:
    """Reads a claim from stdin and writes the verification to stdout."""
    claim = msgspec.json.decode(sys.stdin.buffer.read(), type=ProofRequest)
    verification = _judged(claim)
    sys.stdout.write(msgspec.json.encode(verification).decode() + "\n")


def _judged(claim: ProofRequest) -> Verification:
    from ..capture import CaptureError, capture
    from ..equivalence import verify
    from ..errors import AiosearchError

    specs = placeholders(claim.types)
    programs = []
    for source in (claim.reference, claim.candidate):
        scope: Configuration = {"__name__": "claim"}
        exec(compile(source, "claim.py", "exec"), scope)
        try:
            programs.append(capture(scope["function"], *specs).program)
        except CaptureError as error:
            return Verification("cannot judge", str(error))
    try:
        verdict = verify(*programs, floats=False)
    except AiosearchError as error:
        return Verification("cannot judge", str(error))
    return Verification(str(verdict.status), verdict.scope or verdict.reason)


if __name__ == "__main__":
    main()
