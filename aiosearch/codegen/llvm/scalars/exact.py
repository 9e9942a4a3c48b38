"""Functions without approximation: square root, minimum, maximum, rounding, remainders."""

from __future__ import annotations

from math import inf

from ..operators import OperatorValue
from .double_double import two_product
from .float_formats import absolute, format_of, signed_like


def sqrt(x: OperatorValue) -> OperatorValue:
    """The square root, by instruction."""
    return x.body.intrinsic("sqrt", x)


def maximum(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """The larger operand; NaN if either is. Of two zeros, either."""
    return x.body.select(x.is_nan, x, x.body.select(x > y, x, y))


def minimum(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """The smaller operand; NaN if either is. Of two zeros, either."""
    return x.body.select(x.is_nan, x, x.body.select(x < y, x, y))


def rounded(x: OperatorValue) -> OperatorValue:
    """The nearest integer, ties to even."""
    if x.body.fused:
        return x.body.intrinsic("roundeven", x)
    # Adding 2^23 (or 2^52) pushes the fraction out of the mantissa, rounded to nearest even; larger
    # numbers are integers anyway.
    size, large = absolute(x), 2.0 ** format_of(x).mantissa
    near = signed_like((size + large) - large, x)
    return x.body.select(size < large, near, x)


def floor(x: OperatorValue) -> OperatorValue:
    """The largest integer that is not larger."""
    if x.body.fused:
        return x.body.intrinsic("floor", x)
    near = rounded(x)
    return x.body.select(near > x, near - 1.0, near)


FAR_QUOTIENT = 2.0**52
"""Up to here the whole part of a quotient is one double, and off by one at most."""
_WHOLE_PRODUCTS = (2.0**-900, 2.0**990)
"""Between them no part of a product of halves is lost."""


def remainder(x: OperatorValue, y: OperatorValue) -> OperatorValue:
    """What is left of x / y rounded towards zero, with the sign of x.

    The problem: it is exact, and x / y is not. With q the whole part of the quotient in doubles,
    x - q y is a number that a double holds, so that one fused operation, or an exact product in two
    parts, gives it. q may be one too large where the quotient was rounded up to a whole number;
    what is left is below zero then, and y is added once.

    Example: 1 by 0.1 in doubles, where 0.1 is a little more than a tenth. The quotient is 10 when
    rounded, and 1 - 10 y is -5.55e-17; adding y gives 0.09999999999999995, which is exact.

    Quotients above `FAR_QUOTIENT` are left to long division, a function of its own.
    """
    body = x.body
    if x.scalar == "float":
        wide = remainder(x.cast("fpext", "double"), y.cast("fpext", "double"))
        return wide.cast("fptrunc", "float")
    dividend, divisor = absolute(x), absolute(y)
    quotient = dividend / divisor
    whole = floor(quotient)
    product, lacks = two_product(whole, divisor)
    left = (dividend - product) - lacks
    left = body.select(left < 0.0, left + divisor, left)
    left = body.select(dividend < divisor, dividend, left)
    far = quotient > FAR_QUOTIENT
    if not body.fused:
        least, most = _WHOLE_PRODUCTS
        far = far | (dividend > most) | (divisor < least)
    far = far & (dividend < inf) & (divisor > 0.0) & (divisor < inf)
    return signed_like(_divided_at_length(far, dividend, divisor, left), x)


_LONG_DIVISION = "@aio.rem.far"


def _divided_at_length(
    far: OperatorValue, dividend: OperatorValue, divisor: OperatorValue, left: OperatorValue
) -> OperatorValue:
    """`left`, and where a quotient is `far` what long division leaves."""
    body = left.body
    body.helpers |= {_LONG_DIVISION: _long_division()}
    called = _LONG_DIVISION if body.lanes == 1 else f"{_LONG_DIVISION}.v{body.lanes}"
    if body.lanes > 1:
        body.helpers[called] = _long_divisions(body.kind("double"), body.lanes, called)
    # All lanes are divided: those that need it not, by themselves.
    unit = body.number(1.0, "double")

    def divided() -> list[OperatorValue]:
        over, under = body.select(far, dividend, unit), body.select(far, divisor, unit)
        kind = body.kind("double")
        exact = body.line(f"call {kind} {called}({over}, {under})", "double")
        return [body.select(far, exact, left)]

    (result,) = body.when(body.vectors.any_lane(far.value), [left], divided)
    return result


def _long_division() -> str:
    """What is left of positive doubles, eleven bits of the quotient at a time.

    A double is a whole number of 53 bits times a power of two, denormals too, so that with
    exponents n apart what is left is m 2^n modulo the divisor's number; 2^11 times less than 2^53
    has room in 64 bits.
    """
    return "\n".join([
        f"define internal double {_LONG_DIVISION}(double %x, double %y) noinline cold {{",
        "entry:",
        "  %less = fcmp olt double %x, %y",
        "  br i1 %less, label %small, label %begin",
        "small:",
        "  ret double %x",
        "begin:",
        *_taken_apart("x"),
        *_taken_apart("y"),
        "  %apart = sub i64 %x.power, %y.power",
        "  %first = urem i64 %x.number, %y.number",
        "  br label %next",
        "next:",
        "  %left = phi i64 [ %first, %begin ], [ %rest, %step ]",
        "  %bits = phi i64 [ %apart, %begin ], [ %fewer, %step ]",
        "  %more = icmp sgt i64 %bits, 0",
        "  br i1 %more, label %step, label %done",
        "step:",
        "  %few = icmp slt i64 %bits, 11",
        "  %count = select i1 %few, i64 %bits, i64 11",
        "  %moved = shl i64 %left, %count",
        "  %rest = urem i64 %moved, %y.number",
        "  %fewer = sub i64 %bits, %count",
        "  br label %next",
        "done:",
        "  %float = uitofp i64 %left to double",
        # The unit of the divisor: a power of two from 2^-1074 on, which may be denormal itself.
        "  %normal.power = add i64 %y.power, -52",
        "  %is.denormal = icmp slt i64 %normal.power, 1",
        "  %shifted = shl i64 %normal.power, 52",
        "  %place = sub i64 %y.power, 1",
        "  %bit = shl i64 1, %place",
        "  %unit.bits = select i1 %is.denormal, i64 %bit, i64 %shifted",
        "  %unit = bitcast i64 %unit.bits to double",
        "  %result = fmul double %float, %unit",
        "  ret double %result",
        "}",
        "",
    ])  # fmt: skip


def _taken_apart(name: str) -> list[str]:
    """A positive double as a whole number times 2^(power - 1075)."""
    return [
        f"  %{name}.bits = bitcast double %{name} to i64",
        f"  %{name}.stored = lshr i64 %{name}.bits, 52",
        f"  %{name}.fraction = and i64 %{name}.bits, {(1 << 52) - 1}",
        f"  %{name}.denormal = icmp eq i64 %{name}.stored, 0",
        f"  %{name}.full = or i64 %{name}.fraction, {1 << 52}",
        f"  %{name}.number = select i1 %{name}.denormal, i64 %{name}.fraction, i64 %{name}.full",
        f"  %{name}.power = select i1 %{name}.denormal, i64 1, i64 %{name}.stored",
    ]


def _long_divisions(kind: str, lanes: int, name: str) -> str:
    """The text of the long division of a vector: a loop over its lanes."""
    return "\n".join([
        f"define internal {kind} {name}({kind} %x, {kind} %y) noinline cold {{",
        "entry:",
        "  br label %next",
        "next:",
        "  %i = phi i32 [ 0, %entry ], [ %j, %next ]",
        f"  %v = phi {kind} [ poison, %entry ], [ %w, %next ]",
        f"  %a = extractelement {kind} %x, i32 %i",
        f"  %b = extractelement {kind} %y, i32 %i",
        f"  %r = call double {_LONG_DIVISION}(double %a, double %b)",
        f"  %w = insertelement {kind} %v, double %r, i32 %i",
        "  %j = add i32 %i, 1",
        f"  %more = icmp ult i32 %j, {lanes}",
        "  br i1 %more, label %next, label %done",
        "done:",
        f"  ret {kind} %w",
        "}",
        "",
    ])  # fmt: skip
