"""`aiosearch verify`: whether two programs compute the same, and how that is known."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...capture import CaptureError, RunError
from ...display.status_line import usual_line
from ...documents import JsonValue
from ...plain import plain
from ...tensor import TensorType
from ..inputs.functions import example_inputs
from ..inputs.program_use import program_use
from ..inputs.programs import (
    Statics,
    function,
    input_names_of,
    is_function,
    program_pair,
    runnable,
    sizes,
    static_values,
    types,
)
from ..output.streams import Exit, UsageError, give, give_json
from . import mugraph_check
from .mugraph_check import Judgement, ProgramJudge, not_judged

if TYPE_CHECKING:
    from ..commands.verify import VerifyArguments


SAMPLED_ABOVE = 2**22
"""Elements of a value above which floats are compared at a smaller shape: a distribution takes some
seconds then."""


def run(arguments: VerifyArguments) -> int:
    """Compares two programs, or each of a file's graphs with one, and gives the exit code.

    Where a person looks, what each layer says is shown until the verdict is there.
    """
    line = usual_line()
    if line is None:
        return _verified(arguments, _judge(arguments, None))
    layers: dict[str, str] = {}

    def show(text: str) -> None:
        # A layer that is asked again says its last word, and floats how far they are.
        layers[text.partition(":")[0]] = plain(text)
        line.show("; ".join(layers.values())[: shutil.get_terminal_size().columns - 1])

    try:
        return _verified(arguments, _judge(arguments, show), line.close)
    finally:
        line.close()


def _judge(arguments: VerifyArguments, show: Callable[[str], None] | None) -> ProgramJudge:
    return ProgramJudge(
        arguments.seed,
        arguments.strict,
        not arguments.no_floats,
        program_use(arguments.input, arguments.inputs),
        arguments.tolerance,
        arguments.seconds,
        None if arguments.full_size else SAMPLED_ABOVE,
        show,
    )


def _verified(
    arguments: VerifyArguments, judge: ProgramJudge, ready: Callable[[], None] = lambda: None
) -> int:
    """Calls `ready` before the verdict is told."""
    if arguments.no_floats and (arguments.tolerance is not None or arguments.input):
        raise UsageError("--tolerance and --input are about floats, which --no-floats leaves out")
    if arguments.mugraph is not None:
        if arguments.targets or arguments.program is None:
            raise UsageError("--mugraph FILE takes --program NAME, and no other program")
        if arguments.dtype is not None:
            raise UsageError("--dtype is for two programs; the graphs of a file have their types")
        return mugraph_check.compare(arguments.mugraph, arguments.program, arguments, judge)
    if len(arguments.targets) != 2 or arguments.program is not None:
        raise UsageError(
            "name two programs, as in `aiosearch verify A B`, or a file of Mirage's graphs and what"
            " they should be: --mugraph FILE --program NAME"
        )
    judgement = _compared(arguments, judge)
    ready()
    if arguments.json:
        give_json({"programs": arguments.targets, **judgement.evidence})
    else:
        for line in judgement.lines:
            give(line)
    return Exit.FINE if judgement.accepted else Exit.FAILED


def _compared(arguments: VerifyArguments, judge: ProgramJudge) -> Judgement:
    first, second = arguments.targets
    if not arguments.arg and is_function(first) and is_function(second):
        example = example_inputs(first)
        if example is not None:
            if arguments.no_floats or arguments.inputs is not None:
                raise UsageError(f"--no-floats and --inputs do not go with {first}_inputs")
            return judge.calling(function(first), function(second), example)
    try:
        pair = program_pair(first, second, *_input_flags(arguments))
    except CaptureError as error:
        if not judge.floats:
            return not_judged(error, primitive=error.primitive)
        return _run(arguments, judge, error.obstacle, primitive=error.primitive)
    outcome = judge(pair.one, pair.two)
    if not pair.held or outcome.status != "refuted":
        return outcome
    because = (
        f"they differ for some values of the arrays that they close over ({', '.join(pair.held)})"
    )
    if not judge.floats:
        return not_judged(f"{because}, which need not be the values that these have")
    return _run(arguments, judge, because)


def _run(
    arguments: VerifyArguments, judge: ProgramJudge, because: str, **facts: JsonValue
) -> Judgement:
    """Compares what the two give when they are run, as that is all that can be done."""
    first, second = arguments.targets
    try:
        ours, theirs = runnable(first, second, *_input_flags(arguments))
        names = input_names_of(first, ours)
        return judge.running(ours, theirs, because, names, **facts)
    except RunError as error:
        return not_judged(f"{because}, and {error}", **facts)


def _input_flags(
    arguments: VerifyArguments,
) -> tuple[dict[str, int], list[TensorType], str | None, Statics]:
    """Of sizes, types and values."""
    texts, statics = static_values(arguments.arg)
    return sizes(arguments.shape), types(texts), arguments.dtype, statics
