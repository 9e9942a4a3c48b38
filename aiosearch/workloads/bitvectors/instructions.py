"""The instruction set of the superoptimizer: what each operator means to Python and to z3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

Run = Callable[[int, int], int]
"""An operator at one width, on unsigned words. A unary operator ignores its second operand."""


class WordOperator(Struct, frozen=True):
    """An instruction: its name, its operands, and its meaning in both languages.

    `meaning` makes the Python function of a width. `smt` is the SMT-LIB term over `{a}` and `{b}`;
    a comparison gives the word `{one}` or `{zero}`.
    """

    name: str
    arity: int
    commutative: bool
    smt: str
    meaning: Callable[[int], Run]

    def term(self, width: int, a: str, b: str) -> str:
        """The SMT-LIB term of this operator applied to the terms `a` and `b`."""
        return self.smt.format(a=a, b=b, one=literal(1, width), zero=literal(0, width))


def literal(value: int, width: int) -> str:
    """An SMT-LIB bit-vector constant: `(_ bv5 8)` is 5 in 8 bits."""
    return f"(_ bv{value} {width})"


def _masked(word: Run) -> Callable[[int], Run]:
    """The meaning of an operator whose result `word` only has to be cut to the width."""

    def meaning(width: int) -> Run:
        mask = (1 << width) - 1
        return lambda a, b: word(a, b) & mask

    return meaning


def _exact(word: Run) -> Callable[[int], Run]:
    """The meaning of an operator whose result fits whatever the width."""
    return lambda width: word


def _signed(compare: Run) -> Callable[[int], Run]:
    """The meaning of a signed comparison, by `compare` of unsigned words with their sign bits
    flipped.

    Flipping the sign bit adds half the range, which keeps the order of signed words and makes them
    unsigned.
    """

    def meaning(width: int) -> Run:
        sign = 1 << (width - 1)
        return lambda a, b: compare(a ^ sign, b ^ sign)

    return meaning


def _shl(width: int) -> Run:
    mask = (1 << width) - 1
    # SMT-LIB shifts by the width or more give 0; Python's would go on shifting, and take memory for
    # it.
    return lambda a, b: (a << b) & mask if b < width else 0


def _lshr(width: int) -> Run:
    return lambda a, b: a >> b if b < width else 0


def _ashr(width: int) -> Run:
    sign, mask = 1 << (width - 1), (1 << width) - 1
    # (a ^ sign) - sign is the signed value of the word, which Python shifts arithmetically.
    return lambda a, b: ((a ^ sign) - sign >> min(b, width - 1)) & mask


def _udiv(width: int) -> Run:
    mask = (1 << width) - 1
    # bvudiv by zero is all ones in SMT-LIB: Python has to agree with z3 on every input.
    return lambda a, b: a // b if b else mask


def _test(relation: str) -> str:
    return f"(ite {relation} {{one}} {{zero}})"


_DECLARED = (
    WordOperator("add", 2, True, "(bvadd {a} {b})", _masked(lambda a, b: a + b)),
    WordOperator("sub", 2, False, "(bvsub {a} {b})", _masked(lambda a, b: a - b)),
    WordOperator("and", 2, True, "(bvand {a} {b})", _exact(lambda a, b: a & b)),
    WordOperator("or", 2, True, "(bvor {a} {b})", _exact(lambda a, b: a | b)),
    WordOperator("xor", 2, True, "(bvxor {a} {b})", _exact(lambda a, b: a ^ b)),
    WordOperator("not", 1, False, "(bvnot {a})", _masked(lambda a, b: ~a)),
    WordOperator("neg", 1, False, "(bvneg {a})", _masked(lambda a, b: -a)),
    WordOperator("shl", 2, False, "(bvshl {a} {b})", _shl),
    WordOperator("lshr", 2, False, "(bvlshr {a} {b})", _lshr),
    WordOperator("ashr", 2, False, "(bvashr {a} {b})", _ashr),
    WordOperator("mul", 2, True, "(bvmul {a} {b})", _masked(lambda a, b: a * b)),
    WordOperator("udiv", 2, False, "(bvudiv {a} {b})", _udiv),
    WordOperator("ult", 2, False, _test("(bvult {a} {b})"), _exact(lambda a, b: int(a < b))),
    WordOperator("ule", 2, False, _test("(bvule {a} {b})"), _exact(lambda a, b: int(a <= b))),
    WordOperator("sle", 2, False, _test("(bvsle {a} {b})"), _signed(lambda a, b: int(a <= b))),
    WordOperator("eq", 2, True, _test("(= {a} {b})"), _exact(lambda a, b: int(a == b))),
    WordOperator(
        "some", 1, False, _test("(distinct {a} {zero})"), _exact(lambda a, b: int(a != 0))
    ),
)

OPERATORS: Mapping[str, WordOperator] = MappingProxyType(
    {operator.name: operator for operator in _DECLARED}
)
"""Every operator by name, in the order in which programs are enumerated."""

BASIC: tuple[str, ...] = ("add", "sub", "and", "or", "xor", "not", "neg")
"""What every task may use beside the operators of its own reference program."""
