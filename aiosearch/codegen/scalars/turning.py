"""Angles of many turns: what is left of them after whole turns, from 1,200 bits of 2/π.

An angle is M 2ˢ, where M has 53 bits. Of its product with 2/π, which counts quarters of a turn, the
bits of 2/π above 2²⁻ˢ make whole turns, and those far below are not felt: 192 of them are taken.
"""

from __future__ import annotations

from itertools import pairwise

from .doubled import Pair, multiplied, ordered
from .writing import Body, Value

HALF_PI = (1.5707963267948966, 6.123233995736766e-17)

TWO_OVER_PI = (
    0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
    0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip
"""Bits of 2/π, after 64 that are zero."""

NEAREST = 1023 + 20
"""The stored exponent of the nearest angles that are far."""

TABLE = "@aio.two_over_pi"
ONE = "@aio.turned"


def table() -> str:
    """The text of the constant."""
    words = ", ".join(f"i64 {word}" for word in TWO_OVER_PI)
    return f"{TABLE} = private unnamed_addr constant [{len(TWO_OVER_PI)} x i64] [{words}]\n"


def turned(fused: bool) -> tuple[str, set[str]]:
    """The text of the function of one angle, and what it calls.

    It gives what is left of an angle in two parts, and the quarters of a turn, whose last two bits
    count. An angle that is not far comes back as something else, infinity as no number.
    """
    body = Body(1, fused)
    x = Value(body, "double", "%x")
    bits = x.bits
    stored = (bits >> 52) & 0x7FF
    stored = body.select(stored < NEAREST, NEAREST, stored)
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    product = _product(mantissa.cast("zext", "i128"), stored - 1013)
    quarters = (product + (1 << 125)).halved(126)
    angle = multiplied(_doubled(product - (quarters << 126), bits), _half_pi(body))
    high, low = ordered(angle[0], angle[1] + (x - x))
    negative = bits.halved(63)
    turns = (quarters.cast("trunc", "i64") ^ negative) - negative
    return _function(body, (high, low, turns)), body.declarations


def _function(body: Body, results: tuple[Value, ...]) -> str:
    kind = f"{{ {', '.join(one.kind for one in results)} }}"
    lines = [f"define internal {kind} {ONE}(double %x) noinline cold {{", *body.lines]
    whole = "poison"
    for number, one in enumerate(results):
        lines.append(f"  %r{number} = insertvalue {kind} {whole}, {one.kind} {one.text}, {number}")
        whole = f"%r{number}"
    return "\n".join([*lines, f"  ret {kind} {whole}", "}", ""])


def _product(mantissa: Value, start: Value) -> Value:
    """Quarters of a turn, modulo four: the last 126 bits are a fraction."""
    body = start.body
    words = [_word(start, k) for k in range(4)]
    highest, middle, lowest = (
        body.intrinsic("fshl", one, other, start & 63).cast("zext", "i128")
        for one, other in pairwise(words)
    )
    return (highest * mantissa << 64) + middle * mantissa + (lowest * mantissa >> 64)


def _word(start: Value, ahead: int) -> Value:
    """Of the bits of 2/π, the word with a bit, or a later one."""
    at = (start >> 6) + ahead
    place = at.body.line("ptr", f"getelementptr inbounds i64, ptr {TABLE}, i64 {at.text}")
    return at.body.line("i64", f"load i64, ptr {place.text}")


def _doubled(fraction: Value, sign: Value) -> Pair:
    """Up to one half, as two floats; negated where the first bit of `sign` is set."""
    body = fraction.body
    negative = fraction.halved(127)
    size = (fraction ^ negative) - negative
    body.declarations.add("declare i128 @llvm.ctlz.i128(i128, i1)")
    zeros = body.line("i128", f"call i128 @llvm.ctlz.i128(i128 {size.text}, i1 false)")
    moved = size << zeros
    flipped = (sign ^ negative.cast("trunc", "i64")) & (-1 << 63)
    high = (moved >> 75).cast("trunc", "i64")
    low = (moved >> 22).cast("trunc", "i64") & ((1 << 53) - 1)
    power = zeros.cast("trunc", "i64")
    return _scaled(high, 972 - power, flipped), _scaled(low, 919 - power, flipped)


def _scaled(number: Value, stored: Value, sign: Value) -> Value:
    """A whole number times the power of two with this stored exponent."""
    factor = ((stored << 52) | sign).cast("bitcast", "double")
    return number.cast("sitofp", "double") * factor


def _half_pi(body: Body) -> Pair:
    high, low = HALF_PI
    return body.number(high, "double"), body.number(low, "double")
