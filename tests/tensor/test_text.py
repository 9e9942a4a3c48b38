"""Programs as text: what is printed, what is read, and what a mistake is told."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from testkit.programs.random_programs import random_program

from aiosearch.tensor import (
    OPERATORS,
    Block,
    FormatError,
    Program,
    ShapeError,
    Size,
    UnknownOperator,
    apply,
    literal,
    read,
    tensor,
)
from aiosearch.tensor import write as write_tile
from aiosearch.tensor.syntax.literals import parse_number, parse_size
from aiosearch.tensor.syntax.printer import number_text, size_text
from aiosearch.tensor.text import parse, write

X = tensor("X", "f16", (16, 4096), ("row", "feature"))
W = tensor("W", "f16", (4096, 6144), ("feature", None))

FUSED = """\
program fused(X: f16[row=16, feature=4096], W: f16[feature=4096, 6144]) {
  a, _, b = kernel(grid=[64, 1, 1], range=16) {
    c = load(X, loop=1)
    d = load(W, map=[1, _, _], loop=0)
    e = matmul(c, d)
    f = accumulate(e)
    g = accumulate(c, kind=rms)
    thread {
      h = div(f, g)
      i = write(h)
      j = mul(h, 0.5)
      k = write(j)
    }
    l = accumulate(e, kind=redtox, columns=32)
    m = sqrt(l)
    store(i, map=[1, _, _])
    store(m, map=[1, _, _])
    store(k, map=[1, _, _])
  }
  n = sum(a, axes=[1], keep=true)
  return n, b
}
"""


def _same(program: Program) -> None:
    text = write(program)
    found = parse(text)
    assert found == program
    assert found.name == program.name
    assert write(found) == text


def test_a_program_reads_like_this() -> None:
    """One operator a line, parameters by name, literals where they are used."""
    program = Program("rms_norm", (X, W), (apply("rms_norm", X) @ W * Fraction(1, 3),))
    assert str(program) == (
        "program rms_norm(X: f16[row=16, feature=4096], W: f16[feature=4096, 6144]) {\n"
        "  a = rms_norm(X)\n"
        "  b = matmul(a, W)\n"
        "  c = mul(b, 1/3)\n"
        "  return c\n"
        "}\n"
    )
    _same(program)


def test_a_custom_kernel_reads_like_this() -> None:
    """The block graph is nested, its loop first; threads are nested in it; unused results are _."""
    program = parse(FUSED)
    assert write(program) == FUSED
    _same(program)


def test_every_result_of_a_kernel_needs_a_name() -> None:
    """Two names for three stores are a mistake."""
    with pytest.raises(FormatError, match="2 names for 3 results"):
        parse(FUSED.replace("a, _, b", "a, b"))


def test_a_tile_stored_twice_and_a_term_of_two_kernels_survive() -> None:
    """Sharing is part of a program: the same terms come back."""
    first, second = Block((4, 1, 1), 2), Block((4, 1, 1), 2)
    tile = first.accumulate(first.load(X, (1,), 0))
    one, two = first.results((tile, (1,)), (tile, (0,)))
    (three,) = second.results((tile + second.accumulate(second.load(X, (1,), 0), "max"), (1,)))
    _same(Program("shared", (X,), (one, two, three, one)))


def test_registers_that_outlive_their_thread_survive() -> None:
    """A value held in registers over an operator on tiles belongs to two threads."""
    block = Block((1, 1, 1), 1)
    tile = block.accumulate(block.load(X))
    held = apply("exp", read(tile))
    total = apply("sum", write_tile(held), axes=(1,), keep=True)
    (out,) = block.results((write_tile(held * read(total)), ()))
    program = Program("held", (X,), (out,))
    assert write(program).count("thread {") == 2
    _same(program)


def test_sizes_can_be_names_products_and_sums() -> None:
    """A name in a shape is a size; `label=size` labels it."""
    k, h = Size.named("K"), Size.named("h")
    left = tensor("A", "f32", (2 * h, k), ("row", None))
    right = tensor("B", "f32", (k, h * h + 3))
    program = Program("symbolic", (left, right), ((left @ right) / literal(k),))
    assert "A: f32[row=2·h, K], B: f32[K, 3 + h^2]" in write(program)
    assert "div(a, size(K))" in write(program)
    _same(program)


NAMES = (
    "return",
    "kernel",
    "two words",
    'say "hi"',
    "",
    "inf",
    "_",
    "1st",
    "größe",
    "a\nb",
    "size",
)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_written(name: str) -> None:
    """Names that could be taken for something else stand in quotes."""
    one = tensor(name, "bf16", (2, 2), (name, None))
    _same(Program(name, (one,), (one + one,)))


@pytest.mark.parametrize(
    "value",
    [0, -1, 1 << 70, 0.1, -2.5, 1e-300, 5e-324, math.inf, -math.inf, 1e300, Fraction(1, 3),
     Fraction(-7, 11)],
)  # fmt: skip
def test_numbers_are_written_exactly(value: float | Fraction) -> None:
    """What is read is equal to what was written, to the last bit."""
    assert parse_number(number_text(value)) == value
    _same(Program("number", (X,), (X * literal(value), apply("power", X, exponent=value))))


def test_equal_numbers_are_one_literal() -> None:
    """A half is a half, however it was written: texts do not depend on what came first."""
    assert literal(Fraction(1, 2)) is literal(0.5)
    assert number_text(literal(Fraction(1, 2)).parameter("value")) == "0.5"
    assert literal(2.0) is literal(2) is literal(Fraction(4, 2))


def test_a_number_beyond_all_floats_is_refused() -> None:
    """No evaluator could hold it."""
    with pytest.raises(ShapeError, match="beyond all floats"):
        literal(10**400)


def test_sizes_read_back() -> None:
    """A polynomial's text is its own notation."""
    size = Size.named("g") * Size.named("m") * 4 - Size.named("n") + 2
    assert parse_size(size_text(size)) == size
    assert parse_size("2*h - 2·h + 7") == 7


def test_calls_may_be_nested_when_written_by_hand() -> None:
    """Commas may follow the last operand; comments reach to the end of the line."""
    found = parse("""
        # the norm, then the weights
        program p(X: f16[row=16, feature=4096], W: f16[feature=4096, 6144],) {
          return matmul(mul(rms_norm(X), 2), W)  # all at once
        }""")
    assert found.outputs == ((apply("rms_norm", X) * 2) @ W,)


def test_names_within_a_kernel_are_its_own() -> None:
    """Two kernels may use one name; neither is seen outside."""
    kernel = "kernel(grid=[1], range=1) { x = load(X) y = accumulate(x) store(y) }"
    parse(f"program p(X: f32[4]) {{ a = {kernel} b = {kernel} return a, b }}")
    with pytest.raises(FormatError, match="nothing is named 'y' here"):
        parse(f"program p(X: f32[4]) {{ a = {kernel} return y }}")


def test_deep_programs_need_no_deep_stack() -> None:
    """Ten thousand operators in a row print and parse."""
    term = X
    for index in range(10_000):
        term = apply("exp", term) if index % 2 else term + X
    _same(Program("deep", (X,), (term,)))


HEAD = "program p(X: f32[2, 3]) {\n  "
MISTAKES = {
    "an empty text": ("", "line 1, column 1: expected 'program'"),
    "no inputs": ("program p {", r"line 1, column 11: expected '\('"),
    "a strange letter": (f"{HEAD}a = §\n}}", "line 2, column 7: no word begins with '§'"),
    "an unknown name": (f"{HEAD}return Y }}", "line 2, column 10: nothing is named 'Y'"),
    "two of one name": (f"{HEAD}X = exp(X) }}", "'X' is defined already"),
    "no return": (f"{HEAD}a = exp(X)\n}}", "line 3, column 1: expected a name to define, 'ret"),
    "an unknown parameter": (
        f"{HEAD}return sum(X, axis=[0]) }}",
        "no parameter 'axis' here: .* axes",
    ),
    "a bad type": ("program p(X: f99[2]) { return X }", "no element type 'f99'"),
    "a shape that does not fit": (
        f"{HEAD}a = matmul(X, X)\n  return a }}",
        r"line 2, column 7: matmul\(f32\[2, 3\], .*\n    a = matmul\(X, X\)\n        \^",
    ),
    "a fraction over zero": (f"{HEAD}return mul(X, 1/0) }}", "a whole number above 0"),
    "too deep a call": (f"{HEAD}return {'exp(' * 99}", "more than 50 calls"),
    "a load outside": (f"{HEAD}return load(X) }}", "'load' has no place here"),
    "a result by hand": (f"{HEAD}return result(X) }}", "'result' has no place here"),
    "an open quote": ('program "p', "no word begins with '\"'"),
    "a wrong escape": ('program "\\q"', "unknown escape"),
    "a long number": (f"program p(X: f32[{'9' * 500}])", "a number of 500 digits"),
    "a large power": ("program p(X: f32[h^999999999]) { return X }", "beyond all memory"),
    "a keyword as a size": ("program p(X: f32[inf]) { return X }", "expected a size, found 'inf'"),
    "many axes": (f"program p(X: f32[{'1, ' * 40}]) {{ return X }}", "40 axes"),
    "no end": (f"{HEAD}return X }} x", "expected the end of the text, found 'x'"),
    "a grid that is no list": (
        f"{HEAD}a = kernel(grid=4, range=1) {{",
        r"expected '\[', found '4'",
    ),
    "a store over itself": (
        f"{HEAD}a = kernel(grid=[2], range=1) {{ store(accumulate(load(X))) }} return a }}",
        "blocks along grid axis x store over each other",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_shown_where_it_is(mistake: str) -> None:
    """Line, column, what was expected, and the line itself with a caret."""
    text, message = MISTAKES[mistake]
    with pytest.raises(FormatError, match=message) as caught:
        parse(text)
    assert str(caught.value).splitlines()[-1].strip() == "^"


def test_shapes_that_do_not_fit_are_shape_errors_too() -> None:
    """Who only asks whether the shapes are right need not know that there was a text."""
    with pytest.raises(ShapeError):
        parse("program p(X: f32[2, 3]) { return matmul(X, X) }")


def test_an_unknown_operator_is_named() -> None:
    """It is no mistake of form: another version may know it."""
    with pytest.raises(UnknownOperator, match=r"'foo' in line 2, column 7") as caught:
        parse("program p(X: f32[2, 3]) {\n  a = foo(X)\n  return a }")
    assert caught.value.name == "foo"


def test_broken_texts_give_clear_errors() -> None:
    """Whatever is cut out, doubled or changed in a text, the answer is a program or FormatError."""
    letters = '{}()[],=:·*^/+-_ ax19."\\#\n' + "".join(OPERATORS)
    for seed in range(400):
        random = Random(seed)
        text = write(random_program(seed))
        for _ in range(5):
            start = random.randrange(len(text))
            end = min(len(text), start + random.choice((0, 1, 1, 3, 30)))
            put = random.choice(("", random.choice(letters), text[start:end] * 2))
            text = text[:start] + put + text[end:]
            try:
                parse(text)
            except FormatError:
                continue
