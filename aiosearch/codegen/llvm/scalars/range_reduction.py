"""Payne-Hanek range reduction of large angles, from 1,200 bits of 2/π.

The problem: to reduce an angle such as 1e22 by quarters of a turn, 2/π is needed to as many bits as
the angle has before the point, and as many as the result shows. An angle is M 2^s, with M of 53
bits. Of the product M 2^s * 2/π, those bits of 2/π above 2^(2-s) only make multiples of four
quarters, and those far below are not felt: 192 bits from there on suffice.

Example: x = 1e22 = M 2^21. x * 2/π has a fraction, beyond multiples of four quarters, that gives
sin 1e22 = -0.852201; subtracting multiples of a π/2 of 53 bits would leave no correct digit.

Invariants: the fraction is exact to 126 bits, so even for the f64 closest to a multiple of π/2
enough bits are left. Angles up to 2^20 are returned as they are. Cost: vectors test all lanes at
once and branch only if some angle is large; then lanes go one by one, out of line.
"""

from __future__ import annotations

from itertools import pairwise

from ..builder import LlvmValue
from ..operators import OperatorValue, VectorFunctionBody
from .double_double import DoubleDouble, fast_two_sum, multiply_pairs

HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
"""π/2 as a `DoubleDouble`."""

TWO_OVER_PI = (
    0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
    0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip
"""Bits of 2/π, after 64 zero bits."""

NEAREST = 1023 + 20
"""The stored exponent of `FAR_ANGLE`, from which on angles are reduced here."""

TABLE = "@aio.two_over_pi"
"""Symbol of the bits of `TWO_OVER_PI`."""
SCALAR_FUNCTION = "@aio.turned"
"""Symbol of the reduction of one angle."""


def two_over_pi_text() -> str:
    """The definition of the bits of 2/π."""
    words = ", ".join(f"i64 {word}" for word in TWO_OVER_PI)
    return f"{TABLE} = private unnamed_addr constant [{len(TWO_OVER_PI)} x i64] [{words}]\n"


def scalar_function_text(fused: bool) -> tuple[str, set[str]]:
    """The definition of the reduction of one angle, and the declarations that it needs.

    It returns what is left of an angle in two parts and the quarters of a turn, of which the last
    two bits count. What it returns for small angles means nothing; infinity gives NaN.
    """
    body = VectorFunctionBody(1, fused)
    x = body.parameter("x", "double")
    bits = x.bits
    stored = (bits >> 52) & 0x7FF
    # Small angles would index the table before its begin.
    stored = body.select(stored < NEAREST, NEAREST, stored)
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    product = _product(mantissa.cast("zext", "i128"), stored - 1013)
    # Rounded to the nearest quarter, so the fraction is between -1/2 and 1/2.
    quarters = (product + (1 << 125)).halved(126)
    angle = multiply_pairs(_fraction_as_pair(product - (quarters << 126), bits), _half_pi(body))
    # x - x is zero, and NaN for infinity and NaN.
    high, low = fast_two_sum(angle[0], angle[1] + (x - x))
    negative = bits.halved(63)
    turns = (quarters.cast("trunc", "i64") ^ negative) - negative
    return _function(body, (high, low, turns)), body.writer.declared


def _function(body: VectorFunctionBody, results: tuple[OperatorValue, ...]) -> str:
    """The text of a function that returns these values as a structure."""
    structure = LlvmValue("poison", _kind(body))
    for number, output in enumerate(results):
        text = f"insertvalue {structure}, {output}, {number}"
        structure = body.writer.pure(text, structure.scalar)
    head = f"define internal {structure.type} {SCALAR_FUNCTION}(double %x) noinline cold {{"
    return "\n".join([head, *body.writer.text, f"  ret {structure}", "}", ""])


def _product(mantissa: OperatorValue, start: OperatorValue) -> OperatorValue:
    """Quarters of a turn modulo four, as an integer whose last 126 bits are the fraction."""
    body = start.body
    words = [_two_over_pi_word(start, k) for k in range(4)]
    highest, middle, lowest = (
        body.intrinsic("fshl", word, next_word, start & 63).cast("zext", "i128")
        for word, next_word in pairwise(words)
    )
    return (highest * mantissa << 64) + middle * mantissa + (lowest * mantissa >> 64)


def _two_over_pi_word(start: OperatorValue, ahead: int) -> OperatorValue:
    """64 bits of 2/π that contain the bit `start`, or `ahead` words later."""
    at = (start >> 6) + ahead
    place = at.body.line(f"getelementptr inbounds i64, ptr {TABLE}, {at}", "ptr")
    return at.body.line(f"load i64, {place}", "i64")


def _fraction_as_pair(fraction: OperatorValue, sign: OperatorValue) -> DoubleDouble:
    """A fraction of up to one half as a double-double, negated if the highest bit of `sign` is
    set."""
    body = fraction.body
    negative = fraction.halved(127)
    size = (fraction ^ negative) - negative
    # Leading zeros are shifted out, so that both floats have all of their bits however small the
    # fraction is.
    zeros = body.intrinsic("ctlz", size, flags=["i1 false"])
    moved = size << zeros
    flipped = (sign ^ negative.cast("trunc", "i64")) & (-1 << 63)
    high = (moved >> 75).cast("trunc", "i64")
    low = (moved >> 22).cast("trunc", "i64") & ((1 << 53) - 1)
    power = zeros.cast("trunc", "i64")
    return _scaled(high, 972 - power, flipped), _scaled(low, 919 - power, flipped)


def _scaled(number: OperatorValue, stored: OperatorValue, sign: OperatorValue) -> OperatorValue:
    """An integer times the power of two with this `stored` exponent."""
    factor = ((stored << 52) | sign).cast("bitcast", "double")
    return number.cast("sitofp", "double") * factor


def _half_pi(body: VectorFunctionBody) -> DoubleDouble:
    """π/2 as values."""
    high, low = HALF_PI
    return body.number(high, "double"), body.number(low, "double")


FAR_ANGLE = 2.0**20
"""Angles up to this size are left as they are."""

REDUCTION_RESULT_TYPES = ("double", "double", "i64")
"""What a reduction returns: the angle, what it lacks, and quarters of a turn."""


def reduce_far_angles(x: OperatorValue) -> tuple[OperatorValue, OperatorValue, OperatorValue]:
    """An angle, below an eighth of a turn if it was large; what it lacks; and quarters of a
    turn."""
    body = x.body
    text, calls = scalar_function_text(body.fused)
    body.writer.declared |= calls
    body.helpers |= {TABLE: two_over_pi_text(), SCALAR_FUNCTION: text}
    called = SCALAR_FUNCTION if body.lanes == 1 else f"{SCALAR_FUNCTION}.v{body.lanes}"
    if body.lanes > 1:
        body.helpers[called] = _vector_function(body, called)
    return _where_needed(x, (x > FAR_ANGLE) | (x < -FAR_ANGLE), called)


def _where_needed(
    x: OperatorValue, far: OperatorValue, called: str
) -> tuple[OperatorValue, OperatorValue, OperatorValue]:
    """Calls the reduction if any angle is large, and takes its results for those."""
    body = x.body
    near = x, body.number(0.0, "double"), body.number(0, "i64")
    kind = _kind(body)

    def reduce() -> list[OperatorValue]:
        reduced = body.writer.pure(f"call {kind} {called}({x})", kind)
        return [
            body.select(
                far, body.line(f"extractvalue {reduced}, {number}", unchanged.scalar), unchanged
            )
            for number, unchanged in enumerate(near)
        ]

    angle, tail, turns = body.when(body.vectors.any_lane(far.value), near, reduce)
    return angle, tail, turns


def _vector_function(body: VectorFunctionBody, name: str) -> str:
    """The text of the reduction of a vector: a loop over its angles."""
    wide, scalar = _kind(body), _kind(VectorFunctionBody(1, body.fused))
    kinds = [(number, part, body.kind(part)) for number, part in enumerate(REDUCTION_RESULT_TYPES)]
    return "\n".join([
        f"define internal {wide} {name}({body.kind('double')} %x) noinline cold {{",
        "entry:",
        "  br label %next",
        "next:",
        "  %i = phi i32 [ 0, %entry ], [ %j, %next ]",
        *(f"  %v{k} = phi {kind} [ poison, %entry ], [ %w{k}, %next ]" for k, _, kind in kinds),
        f"  %angle = extractelement {body.kind('double')} %x, i32 %i",
        f"  %turned = call {scalar} {SCALAR_FUNCTION}(double %angle)",
        *(f"  %p{k} = extractvalue {scalar} %turned, {k}" for k, _, _ in kinds),
        *(f"  %w{k} = insertelement {kind} %v{k}, {part} %p{k}, i32 %i" for k, part, kind in kinds),
        "  %j = add i32 %i, 1",
        f"  %more = icmp ult i32 %j, {body.lanes}",
        "  br i1 %more, label %next, label %done",
        "done:",
        f"  %r0 = insertvalue {wide} poison, {kinds[0][2]} %w0, 0",
        f"  %r1 = insertvalue {wide} %r0, {kinds[1][2]} %w1, 1",
        f"  %r2 = insertvalue {wide} %r1, {kinds[2][2]} %w2, 2",
        f"  ret {wide} %r2",
        "}",
        "",
    ])  # fmt: skip


def _kind(body: VectorFunctionBody) -> str:
    """The type of the structure that a reduction returns."""
    return f"{{ {', '.join(map(body.kind, REDUCTION_RESULT_TYPES))} }}"
