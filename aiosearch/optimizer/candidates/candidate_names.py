"""Names of candidates for people: what was done to the original, in a few words.

Example: the product of `x * 0.1` and w, rewritten by `scale_out_of_product` and run as one kernel
that reads w packed, is called

    scale after the product, one fused kernel, w packed

`PHRASES` has words for each rule of the algebra, `rewrite_name` puts those of a derivation
together, `kernels_name` says what a schedule does. Two candidates never share a name within one
question (`DistinctNames`): where their words are equal, the later one has a number. What a name
leaves out, as tile sizes, is in `CandidateSource.schedule`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ...codegen.ir import TileKernel
from ...tensor import Program, walk
from .spellings import ProductSpelling, Spelling, choices, products

AS_WRITTEN = "as written"
"""The user's own code, as XLA compiles it."""
SIMPLIFIED = "simplified"
"""A program that came about without a rule, by `Tidier` alone."""
FUSED = "fused by search"
"""Kernels that the superoptimizer finds."""
GUARDED = "overflow guarded"
"""A candidate that computes the original where its result is not finite."""
_MOST_PHRASES = 2
"""Steps that a name has room for, in a table of eighty columns."""

PHRASES: Mapping[str, str] = {
    "common_factor": "common factor taken out",
    "common_factor_of_many": "common factor taken out",
    "diagonal_first": "diagonal first",
    "diagonal_of_product": "only the diagonal of the product",
    "distributed": "factor distributed",
    "exp_of_difference": "no log inside exp",
    "exp_of_scaled_log": "power for exp of log",
    "function_of_repeated": "function before repeating",
    "inverse_root": "1 / sqrt for rsqrt",
    "joined_exponentials": "exponentials joined",
    "joined_logarithms": "logarithms joined",
    "log_of_complement": "log of sigmoid for log of 1 - sigmoid",
    "log_of_one_more": "log1p",
    "log_of_quotient": "log of a quotient taken apart",
    "over_root": "division by sqrt",
    "power_by_root": "power by roots",
    "product_of_sum": "product of each summand",
    "product_with_constant": "sum for a product with a constant",
    "product_with_diagonal": "scaling for a product with a diagonal",
    "product_with_stack": "stacked columns added up",
    "reassociated": "products in another order",
    "reciprocal_first": "reciprocal for a division",
    "reduced_function": "reduction before the function",
    "reduction_of_repeated": "no reduction of repeated values",
    "reduction_of_transpose": "reduction without transpose",
    "regrouped_factors": "small factors first",
    "rows_at_once": "all rows at once",
    "scale_across_product": "scale on the other factor",
    "scale_into_product": "number before the product",
    "scale_out_of_product": "scale after the product",
    "sigmoid": "sigmoid for its formula",
    "slice_first": "slice first",
    "sum_as_product": "sum as a product of matrices",
    "sum_from_product": "outer product without a sum",
    "sum_inside": "factor outside the sum",
    "sum_of_product": "sum before the product",
    "sum_of_rows": "all rows summed at once",
    "sum_of_square": "square expanded",
    "sum_of_sum": "sum of each summand",
    "transpose_after": "transpose later",
    "transpose_before": "transpose earlier",
    "transpose_of_product": "transpose inside the product",
    "turned": "product transposed",
}
"""What each rule of `algebra.rules` does, by its name."""
_MINOR = frozenset(
    {
        "distributed", "function_of_repeated", "inverse_root", "over_root", "reciprocal_first",
        "reduction_of_transpose", "regrouped_factors", "transpose_after", "transpose_before",
        "transpose_of_product", "turned",
    }
)  # fmt: skip
"""Rules that mostly prepare for another: they are named where there is nothing else to name."""
_SPELLING_PHRASES = {
    ProductSpelling.ACCUMULATE: "f32 accumulation",
    ProductSpelling.TWO_ROWS: "row padded to two",
    ProductSpelling.TRANSPOSED: "written transposed",
}


def rewrite_name(trail: Sequence[str]) -> str:
    """What a derivation did, given the names of its rules and, of a value that was computed anew,
    of its operators."""
    rules = [name for name in dict.fromkeys(trail) if name in PHRASES]
    operators = [name for name in dict.fromkeys(trail) if name not in PHRASES]
    # A stable sort: steps that matter come first, each kind in the order in which it was taken.
    phrases = [PHRASES[name] for name in sorted(rules, key=_MINOR.__contains__)]
    if operators:
        phrases.insert(0, f"recomputed by {_listed(operators)}")
    phrases = list(dict.fromkeys(phrases))
    hidden = len(phrases) - _MOST_PHRASES
    if hidden > 0:
        phrases = [*phrases[:_MOST_PHRASES], f"{hidden} more step{'s' * (hidden > 1)}"]
    return ", ".join(phrases) or SIMPLIFIED


def composed_name(original: Program, program: Program) -> str:
    """What differs where no rule says so: the superoptimizer gives programs, and no derivation."""
    before, after = _scales(original), _scales(program)
    phrases = []
    if after[0] < before[0] and after[1]:
        phrases.append(PHRASES["scale_out_of_product"])
    elif before[1] and after[0] > before[0]:
        phrases.append("scale before the product")
    fewer = _operations(original) - _operations(program)
    gone = dict.fromkeys(term.operator.name for term in original.terms())
    for term in program.terms():
        gone.pop(term.operator.name, None)
    if fewer < 0 and gone:
        phrases.append(f"{_listed(list(gone))} written out")
    elif fewer > 0:
        phrases.append(f"{fewer} fewer operation{'s' * (fewer > 1)}")
    return ", ".join(phrases) or "operations in another order"


def _scales(program: Program) -> tuple[int, int]:
    """How many multiplications and divisions a product of matrices reads, and how many others there
    are."""
    scales = {term for term in program.terms() if term.operator.name in ("mul", "div")}
    inside = {term for term in walk(products(program)) if term in scales}
    return len(inside), len(scales - inside)


def _operations(program: Program) -> int:
    return sum(bool(term.arguments) for term in program.terms())


def merged_name(program: Program, merged: Program) -> str:
    """What `merge_weights` did: products that became one, weights of a wider type, or both."""
    joined = len(products(merged)) < len(products(program))
    casts = [
        sum(term.operator.name == "cast" for term in either.terms()) for either in (program, merged)
    ]
    wide = "weights in f32" if casts[1] > casts[0] else ""
    return ", ".join(filter(None, ("weights side by side" if joined else "", wide)))


def spelling_name(spelling: Spelling, program: Program) -> str:
    """How the products of a program are written; empty for the plain spelling.

    A product is named by its number, from 1, unless all that could be written so are.
    """
    terms = products(program)
    parts = []
    for choice, phrase in _SPELLING_PHRASES.items():
        chosen = [number for number, chosen_way in sorted(spelling.choices) if chosen_way is choice]
        possible = [number for number, term in enumerate(terms) if choice in choices(term)]
        if chosen:
            numbers = _listed([str(number + 1) for number in chosen])
            which = "" if chosen == possible else f" in product {numbers}"
            parts.append(f"{phrase}{which}")
    return ", ".join(parts)


def kernels_name(kernels: Sequence[TileKernel], packed: Sequence[str] = (), kind: str = "") -> str:
    """What machine code of ours is: how many kernels, whether they compute several things at once,
    and which inputs they read packed. `kind` says what prints them, where that is told."""
    stages = sum(len(kernel.stages) for kernel in kernels)
    count = "one" if len(kernels) == 1 else str(len(kernels))
    noun = "kernel" if len(kernels) == 1 else "kernels"
    fused = "fused" if stages > len(kernels) else ""
    name = " ".join(filter(None, (count, fused, kind, noun)))
    if not packed:
        return name
    return f"{name}, {_listed(packed) if len(packed) < 3 else f'{len(packed)} weights'} packed"


class DistinctNames:
    """Names that are given out once each; equal sources have one name."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._names: dict[str, str] = {}

    def name(self, words: str, source: str) -> str:
        """The name of a source that these words describe: the words, with a number from the second
        source on."""
        if source not in self._names:
            self._counts[words] += 1
            count = self._counts[words]
            self._names[source] = words if count == 1 else f"{words} ({count})"
        return self._names[source]


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
