"""Fills in what the declarations of the tensor language say: operators, accumulators, rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from aiosearch.equivalence import Rule
from aiosearch.equivalence.inputs.distributions import SPECIAL
from aiosearch.equivalence.inputs.draws import FLOAT_DISTRIBUTIONS
from aiosearch.tensor import ACCUMULATORS, OPERATORS, DType, Operator
from aiosearch.tensor.abstract import Abstract, Abstracts, Shaped
from aiosearch.tensor.mugraph import LOAD
from aiosearch.tensor.operator import ParameterKind
from aiosearch.tensor.programs import BUILTINS
from aiosearch.tensor.terms import LITERAL

VALUES = {
    ParameterKind.SIZE: "N",
    ParameterKind.SHAPE: "[N, …]",
    ParameterKind.AXIS: "axis",
    ParameterKind.AXES: "[axis, …]",
    ParameterKind.PERMUTATION: "[axis, …]",
    ParameterKind.COUNT: "N",
    ParameterKind.COUNTS: "[N, …]",
    ParameterKind.NUMBER: "number",
    ParameterKind.WORD: "word",
    ParameterKind.FLAG: "true",
    ParameterKind.DTYPE: "type",
}
"""How a parameter of each kind is written."""

WORDS = {
    "select": "`x` where `p` is true, else `y`",
    "cast": "the same value in another element type",
    "exponential": "the positive number `base` to the power of `x`",
    "power": "`x` to a number: multiplied, divided and rooted where the number is whole or half",
    "clamp": "`minimum(maximum(x, low), high)`",
    "broadcast": "repeats axes of size one up to `shape`; the rank stays, but for a number's",
    "reshape": "the same elements in row-major order; axes are split, merged, or of size one",
    "transpose": "axis *i* of the result is axis `axes[i]` of `x`",
    "slice": "the indices `start`, `start + step`, … below `stop` along an axis",
    "concatenate": "one behind the other along an axis, which is as long as all together",
    "stack": "side by side along a new axis",
    "pad": "`low` and `high` elements of `value` before and behind an axis",
    "diagonal": "`[…, n, n]` to `[…, n]`: the elements of two equal indices",
    "iota": "the index along an axis, as a tensor of `shape`",
    "sum": "the sum over axes, which go, or stay with size one under `keep`",
    "mean": "the sum over axes, divided by their sizes",
    "max": "the largest over axes",
    "min": "the least over axes",
    "rms_norm": "`x / sqrt(mean(x·x))` along the last axis; no weight, no epsilon",
    "fold": "adds up chunks of `size` along an axis: `out[j]` is the sum of all `x[i·size + j]`",
    "matmul": "`[…, m, k]` by `[…, k, n]` is `[…, m, n]`; leading axes of size one are repeated",
    "rem": "what is left of `x / y` rounded towards zero, with the sign of `x`",
    "lgamma": "the logarithm of the absolute value of the gamma function",
    "digamma": "the slope of `lgamma`",
    "take": "the elements of `x` at the places `y` along an axis; other axes of size one are"
    " repeated, and a place outside of the axis is moved to its nearest end",
    "scatter_add": "`x`, with each element of `z` added at its place `y` along an axis; what is"
    " placed outside is dropped",
    "argmax": "the first place of the largest element along an axis, or of the first NaN",
    "argmin": "the first place of the least element along an axis, or of the first NaN",
    "cumsum": "the sum of all elements up to each place of an axis, from the end under `reverse`",
    "cummax": "the largest of all elements up to each place of an axis",
    "cummin": "the least of all elements up to each place of an axis",
    "convolution": "`x` is `[batch, places…, channels]`, `y` is `[window…, channels, features]`;"
    " one number for each place of `strides`, of padding by zeros `low` and `high`, of `dilation`;"
    " features of one of `groups` are made of the channels of one alone",
}
"""What operators do where no formula of `x` and `y` says it."""

FAMILIES = {
    "pointwise": "On each element",
    "data_movement": "Moving elements",
    "reductions": "Over axes",
    "indexing": "Computed places",
    "convolution": "Convolution",
}

STORES = {
    "none": "the tiles of all turns, added up",
    "sum": "that, and summed along the last axis, which stays with size one",
    "mean": "the mean over all turns and along the last axis",
    "rms": "the root of the mean square over all turns and along the last axis",
    "redtox": "added up, then folded to `columns` columns (64 where nothing is said)",
    "max": "the largest of all turns",
}


def operators() -> str:
    """Lists every operator by family, with what it means."""
    parts = []
    for module, title in FAMILIES.items():
        found = [one for one in OPERATORS.values() if family(one) == module]
        rows = [(f"`{call(one)}`", meaning(one)) for one in found]
        parts.append(f"### {title}\n\n{table(('operator', 'what it computes'), rows)}")
    return "\n\n".join(parts)


def family(operator: Operator) -> str:
    """The module that declares it; none for what has a form of its own."""
    special = operator in (LITERAL, OPERATORS["input"], LOAD)
    return "" if special else str(operator.meaning.__module__).rpartition(".")[2]


def call(operator: Operator) -> str:
    """The operator as it is written."""
    given = [
        f"{one.name}={VALUES[one.kind]}" if one.required else f"[{one.name}={VALUES[one.kind]}]"
        for one in operator.parameters
    ]
    return f"{operator.name}({', '.join([*names(operator), *given])})"


def names(operator: Operator) -> Sequence[str]:
    if operator.arity is None:
        return ["x", "…"]
    if operator.name == "select":
        return ["p", "x", "y"]
    return ["x", "y", "z"][: operator.arity]


def meaning(operator: Operator) -> str:
    """Arithmetic as the declaration says it; what is more in words."""
    if operator.name in WORDS:
        return WORDS[operator.name]
    words: Any = Abstracts()
    operands = [Shaped(Abstract.of(name), (2,)) for name in names(operator)]
    return f"`{tidy(str(operator.meaning(words, *operands).term))}`"


def tidy(text: str) -> str:
    """An abstract term as one would write it."""
    text = re.sub(r"negative\((\w+)\)", r"-\1", text).replace("absolute(", "abs(")
    text = re.sub(r"(\d{3,})/(\d{3,})", lambda n: f"{int(n[1]) / int(n[2]):.6g}", text)
    text = re.sub(r"^([<=!]+)\((\w+), (\w+)\)$", r"\2 \1 \3", text)
    for at in reversed(range(len(text) - 1)):
        if text[at : at + 2] == "((" and closes(text, at) == closes(text, at + 1) + 1:
            inner = closes(text, at + 1)
            text = text[:at] + text[at + 1 : inner] + text[inner + 1 :]
    return text[1:-1] if text.startswith("(") and closes(text, 0) == len(text) - 1 else text


def closes(text: str, start: int) -> int:
    """Where the bracket that opens at `start` closes."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if not depth:
            return at
    raise ValueError(f"a bracket stays open in {text}")


def accumulators() -> str:
    rows = [(f"`{name}`", STORES[name]) for name in ACCUMULATORS]
    return table(("kind", "what is there after the loop"), rows)


def rules() -> str:
    """Lists the axioms of proofs."""
    return "\n".join(f"- {rule}" for rule in Rule)


def distributions() -> str:
    named = ", ".join(f"`{name}`" for name in FLOAT_DISTRIBUTIONS)
    odd = ", ".join(f"`{name}`" for name in SPECIAL)
    return f"{named}; under `--strict` also {odd}, and each input with one such element alone."


def dtypes() -> str:
    return ", ".join(f"`{one}`" for one in DType if one is not DType.WEAK)


def builtins() -> str:
    rows = []
    for one in BUILTINS.values():
        sizes = ", ".join(f"`{name}={size}`" for name, size in one.sizes.items())
        rows.append((f"`{one.name}`", one.summary.replace("|", "\\|"), sizes))
    return table(("program", "what it computes", "sizes"), rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
