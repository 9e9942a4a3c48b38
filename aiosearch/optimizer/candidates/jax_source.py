"""Programs written as JAX functions that stand alone, with long lines folded and names made unique.

    print(emit(program))

gives, for `x / sqrt(mean(x²))` of f32[8, 16],

    import jax.numpy as jnp
    |
    def f(x):
        a = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
        return x / jnp.sqrt(a)

`TermSpelling` says what a term is written from: itself, or with what stands around it said in one
expression. `fold_line` opens long lines at brackets. `renamed` and `with_parameters` change names
in a text, so that several sources can stand in one file.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from string import ascii_lowercase
from typing import NamedTuple

from ...capture.jax_types import Function
from ...codegen.pallas import dialect
from ...tensor import DType, Program, Term, apply, tensor
from ...tensor.analysis.substitution import rebuilt
from ...tensor.errors import TensorError
from ...tensor.operator import NUMBERS
from ...tensor.sizes import Dim
from ...tensor.terms import INPUT, LITERAL
from ...tensor.types import ARRAY_NAMES, BYTES, HALVES, JAX_NAMES
from ..array_types import STREAMED_BYTES
from .jax_expressions import SourceExpression, matmul, number, operator_expression
from .spellings import ProductSpelling, Spelling, products


@dataclass(frozen=True, slots=True)
class TermSpelling:
    """How a term is written: the terms that it is written from, and the expression of theirs."""

    operands: tuple[Term, ...]
    write: Callable[..., SourceExpression]


def spelled_out(term: Term) -> Term:
    """The norm by its parts; half types are widened to f32 for it."""
    x = term.arguments[0]
    wide = apply("cast", x, dtype="f32") if x.dtype in HALVES else x
    mean = apply("mean", apply("square", wide), axes=(len(x.shape) - 1,), keep=True)
    normalized = wide / apply("sqrt", mean)
    return normalized if wide is x else apply("cast", normalized, dtype=x.dtype)


def product(term: Term, chosen: frozenset[ProductSpelling]) -> TermSpelling:
    """A product of matrices, as `chosen` says it is to be written."""
    left, right = term.arguments
    if ProductSpelling.TRANSPOSED in chosen:
        return _turned(left, right, chosen)
    narrow = _narrow(left), _narrow(right)
    if narrow[0] is not None and narrow[1] is not None and narrow[0].dtype is narrow[1].dtype:
        return TermSpelling((narrow[0], narrow[1]), lambda x, y: matmul(x, y, wide=True))

    def write(x: SourceExpression, y: SourceExpression) -> SourceExpression:
        if ProductSpelling.TWO_ROWS in chosen:
            widths = ", ".join(["(0, 0)"] * (len(left.shape) - 2) + ["(0, 1)", "(0, 0)"])
            x = SourceExpression(f"jnp.pad({x.text}, ({widths}))")
        expression = matmul(x, y, wide=ProductSpelling.ACCUMULATE in chosen)
        if ProductSpelling.TWO_ROWS in chosen:
            expression = SourceExpression(f"{expression.atom}[..., :1, :]")
        return _rounded(expression, term.dtype, chosen)

    return TermSpelling((left, right), write)


def _rounded(
    expression: SourceExpression, dtype: DType, chosen: frozenset[ProductSpelling]
) -> SourceExpression:
    """The expression in its own type, where it was accumulated in a wider one."""
    if ProductSpelling.ACCUMULATE not in chosen:
        return expression
    return SourceExpression(f"{expression.atom}.astype({JAX_NAMES[dtype]})")


def _narrow(term: Term) -> Term | None:
    """The operand of a cast from a half type to f32: products of halves are exact in 32 bits."""
    if term.operator.name == "cast" and term.dtype is DType.F32:
        inner = term.arguments[0]
        return inner if inner.dtype in HALVES else None
    return None


def _turned(left: Term, right: Term, chosen: frozenset[ProductSpelling]) -> TermSpelling:
    operands = tuple(_unturned(side) or side for side in (right, left))

    def write(x: SourceExpression, y: SourceExpression) -> SourceExpression:
        x, y = (
            piece if _unturned(side) is not None else SourceExpression(f"{piece.atom}.mT")
            for side, piece in ((right, x), (left, y))
        )
        expression = matmul(x, y, wide=ProductSpelling.ACCUMULATE in chosen)
        return _rounded(SourceExpression(f"{expression.atom}.mT"), left.dtype, chosen)

    return TermSpelling(operands, write)


def _unturned(term: Term) -> Term | None:
    """What a term is the matrix transpose of; `None` where it is none."""
    rank = len(term.shape)
    order = (*range(rank - 2), rank - 1, rank - 2)
    if term.operator.name == "transpose" and term.parameter("axes") == order:
        return term.arguments[0]
    return None


def vector_product(term: Term, chosen: frozenset[ProductSpelling]) -> TermSpelling | None:
    """A product with a vector, whose axis of size one is added and removed again."""
    left, right = term.arguments
    if chosen - {ProductSpelling.ACCUMULATE} or len(term.shape) != 2:
        return None
    row, column = _vector(left, 0), _vector(right, 1)
    if row is None and column is None:
        return None

    def write(x: SourceExpression, y: SourceExpression) -> SourceExpression:
        expression = matmul(x, y, wide=ProductSpelling.ACCUMULATE in chosen)
        return _rounded(expression, term.dtype, chosen)

    if row is not None and column is not None:
        return None
    return TermSpelling((row or left, column or right), write)


def _vector(term: Term, axis: int) -> Term | None:
    """The vector that a row (axis 0 added) or a column (axis 1) is made of."""
    if term.operator.name == "reshape" and term.shape[axis] == 1:
        inner = term.arguments[0]
        return inner if len(inner.shape) == 1 and inner.operator is not LITERAL else None
    return None


WIDTH = 96
"""Columns of a line of generated text."""


def fold_line(line: str, indent: int = 4) -> list[str]:
    """A line that is too long, opened at its widest outer brackets and cut at the
    commas in them."""
    if len(line) + indent <= WIDTH:
        return [line]
    opened, closed = _brackets(line)
    if opened < 0:
        return [line]
    lines, parts = [line[: opened + 1]], list(_parts(line[opened + 1 : closed]))
    # A comma behind a lone operand in parentheses would make it a tuple.
    called = line[opened] == "[" or line[opened - 1 : opened].isidentifier()
    comma = "," if called or len(parts) > 1 else ""
    for part in parts:
        *before, last = fold_line(part, indent + 4)
        lines.extend(f"    {inner}" for inner in [*before, f"{last}{comma}"])
    return [*lines, line[closed:]]


def _brackets(line: str) -> tuple[int, int]:
    """Where the widest outer brackets open and close; -1 where there are none."""
    depth, opened, widest = 0, -1, (-1, -1)
    for at, letter in enumerate(line):
        if letter in "([":
            opened = at if not depth else opened
            depth += 1
        elif letter in ")]":
            depth -= 1
            if not depth and at - opened > max(1, widest[1] - widest[0]):
                widest = (opened, at)
    return widest


def _parts(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


_INLINE = 40
"""Characters of an expression above which it gets a name of its own."""

RESERVED = frozenset({"jax", "jnp", "lax", *dir(builtins), *keyword.kwlist})
"""Names that mean something in what is written."""


def emit(program: Program, spelling: Spelling = Spelling()) -> str:  # noqa: B008 - it is frozen
    """A module with one function of the program's name, which takes and gives what the program
    does."""
    return _Module(program, spelling).text()


def emit_pack(program: Program) -> str:
    """A module like that of `emit`, whose function gives a tuple, whatever is in it."""
    return _Module(program, Spelling(), always_tuple=True).text()


def emit_blocked(program: Program, rows: int) -> str | None:
    """A module like that of `emit` in which so many rows of the results are computed at once.

    Example, of `tanh(x @ w)` with x of f32[4096, 64] and 1024 rows:

        def f(x, w):
            def block(x):
                return jnp.tanh(x @ w)
            return lax.map(block, x.reshape(4, 1024, 64)).reshape(4096, 64)

    `None` where results have no such rows: where their axis 0 differs, or is not a multiple, or
    where rows need more than the same rows of some inputs and all of others.
    """
    total = program.outputs[0].shape[0] if program.outputs[0].shape else 0
    if not isinstance(total, int) or total % rows or total < 2 * rows:
        return None
    if any(output.shape[:1] != (total,) for output in program.outputs):
        return None
    by_rows = _inputs_by_rows(program)
    if not by_rows:
        return None

    def resize(dim: Dim) -> Dim:
        # Axes of that length other than the rows would be resized as well: what is then built is
        # not what `_inputs_by_rows` has looked at, and has no such shape.
        return rows if dim == total else dim

    inputs = [
        tensor(
            term.parameter("name"),
            term.dtype,
            [resize(dim) for dim in term.shape] if at in by_rows else term.shape,
            term.parameter("labels"),
        )
        for at, term in enumerate(program.inputs)
    ]
    try:
        (block,) = rebuilt([program], inputs, lambda _term, _name, _at, dim: resize(dim), NUMBERS)
    except TensorError:
        return None
    if any(
        part.shape != (rows, *whole.shape[1:])
        for part, whole in zip(block.outputs, program.outputs, strict=True)
    ):
        return None
    return _around_blocks(program, block, by_rows, total // rows, rows)


BLOCK_BYTES = 512 * 1024
"""Bytes of the widest value in a block: measured to be best on second-level caches of 1 to 2 MB."""
BY_ROWS = 0.999
"""How much of a program must be computed by rows for blocks of them."""


def block_rows(program: Program) -> list[int]:
    """How many rows a block should have, if blocks are worth a trial: powers of two that divide all
    rows, one for which the widest value of a block is `BLOCK_BYTES` long and one of four times.

    Weights are as large in every block, so that only values with these rows count.
    """
    total = program.outputs[0].shape[0] if program.outputs[0].shape else 0
    shapes = [
        ([dim for dim in term.shape if isinstance(dim, int)], term) for term in program.terms()
    ]
    widest = max(
        (
            math.prod(sizes) * BYTES.get(term.dtype, 4)
            for sizes, term in shapes
            if len(sizes) == len(term.shape) and sizes[:1] == [total]
        ),
        default=0,
    )
    if not isinstance(total, int) or total < 2 or widest < STREAMED_BYTES:
        return []
    rows = 1 << max(0, int(BLOCK_BYTES * total // widest).bit_length() - 1)
    return [each for each in (rows, 4 * rows) if total % each == 0 and total >= 2 * each]


def _around_blocks(
    program: Program, block: Program, by_rows: Sequence[int], blocks: int, rows: int
) -> str:
    function, arguments = names(program)
    used = {*RESERVED, *arguments}
    inner, result = free_name("block", used), free_name("results", used)
    source = emit(block)
    definition = source[source.index("def ") :]
    body = definition[definition.index(":\n") + 2 :]
    taken = ", ".join(arguments[at] for at in by_rows)
    several = len(by_rows) > 1
    parts = free_name("parts", used) if several else taken
    lines = [f"def {inner}({parts}):", *([f"    {taken} = {parts}"] if several else [])]
    lines += body.rstrip().split("\n")

    def cut(at: int) -> str:
        sizes = ", ".join(map(str, (blocks, rows, *program.inputs[at].shape[1:])))
        return f"{arguments[at]}.reshape({sizes})"

    whole = ", ".join(cut(at) for at in by_rows)
    lines.append(f"{result} = lax.map({inner}, {f'({whole})' if several else whole})")
    shapes = [", ".join(map(str, output.shape)) for output in program.outputs]
    joined = [f"{result}.reshape({shapes[0]})"]
    if len(shapes) > 1:
        joined = [f"{result}[{at}].reshape({shape})" for at, shape in enumerate(shapes)]
    lines.append(f"return {', '.join(joined)}")
    text = "\n".join(f"    {line}" if line else line for line in lines)
    return module(f"def {function}({', '.join(arguments)}):\n{text}\n")


def _inputs_by_rows(program: Program) -> list[int]:
    """The inputs of which the same rows are enough for rows of all results, by the rules for rows
    of jaxprs; none where anything else is needed, or rows along another axis."""
    # Here, as they load jax, which whoever only writes text does without.
    import jax

    from ...mapper.rows.demands import pull
    from ...mapper.rows.equations import trace
    from ...mapper.rows.loops import requirement
    from ...mapper.rows.rules import WHOLE, Rows

    names_of: dict[str, Function] = {}
    exec(emit(program), names_of)  # a text of ours
    kind: Function = jax.ShapeDtypeStruct  # which jax leaves without types
    shapes = [kind(term.shape, jax.numpy.dtype(ARRAY_NAMES[term.dtype])) for term in program.inputs]
    flat, _ = trace(names_of[names(program)[0]], shapes)
    pulled = pull(flat, [(output, Rows(0)) for output in flat.outputs], requirement)
    # What is needed whole, as a bias with an axis more, is computed again for every block.
    if pulled is None or pulled.share < BY_ROWS:
        return []
    asked = [pulled.inputs[value.number] for value in flat.inputs]
    if any(demands not in ({Rows(0)}, {WHOLE}, frozenset()) for demands in asked):
        return []
    return [at for at, demands in enumerate(asked) if demands == {Rows(0)}]


def merged(*sources: str) -> str:
    """One module with the functions of several."""
    return module("\n\n".join(source[source.index("def ") :] for source in sources))


def names(program: Program) -> tuple[str, list[str]]:
    """The names of the function and of its parameters, as `emit` writes them."""
    used: set[str] = set(RESERVED)
    function = free_name(program.name, used)
    return function, [free_name(term.parameter("name"), used) for term in program.inputs]


def free_name(preferred: str, used: set[str]) -> str:
    """A name that Python allows, as near to `preferred` as can be and not among `used`, to which it
    is added."""
    free = re.sub(r"\W", "_", preferred, flags=re.ASCII).strip("_") or "x"
    free = f"x{free}" if free[0].isdigit() else free
    tries = (f"{free}{number or '_'}" for number in count())
    while free in used:
        free = next(tries)
    used.add(free)
    return free


def _letters(used: set[str]) -> Iterator[str]:
    for turn in count():
        for letter in ascii_lowercase:
            name = f"{letter}{turn or ''}"
            if name not in used and name != "l":
                yield name


class _Module:
    def __init__(self, program: Program, spelling: Spelling, *, always_tuple: bool = False) -> None:
        self._program = program
        self._always_tuple = always_tuple
        self._name, self._inputs = names(program)
        self._chosen = {term: spelling.of(number) for number, term in enumerate(products(program))}
        # Short names in order of appearance, as a person would write them.
        self._free = _letters({self._name, *self._inputs, *RESERVED})
        self._pieces: dict[Term, SourceExpression] = {
            term: SourceExpression(name)
            for term, name in zip(program.inputs, self._inputs, strict=True)
        }
        self._lines: list[str] = []

    def text(self) -> str:
        forms = self._forms()
        uses = Counter(operand for form in forms.values() for operand in form.operands)
        uses.update(self._program.outputs)
        for term, form in forms.items():
            self._define(term, form, uses[term])
        body = "\n".join(f"    {line}" for line in [*self._lines, *self._return()])
        head = f"def {self._name}({', '.join(self._inputs)}):"
        if len(head) > WIDTH:
            inner = "".join(f"    {name},\n" for name in self._inputs)
            head = f"def {self._name}(\n{inner}):"
        return module(f"{head}\n{body}\n")

    def _return(self) -> list[str]:
        """The last statement, an output a line where it is long."""
        outputs = [self._output(term) for term in self._program.outputs]
        line = f"return {', '.join(outputs)}"
        if len(outputs) == 1:
            return [f"return ({outputs[0]},)" if self._always_tuple else line]
        if len(line) + 4 <= WIDTH:
            return [line]
        return ["return (", *(f"    {output}," for output in outputs), ")"]

    def _forms(self) -> dict[Term, TermSpelling]:
        """Every term that is written, operands first.

        Depth first with a stack of its own: a program may be deeper than Python's frames.
        """
        forms: dict[Term, TermSpelling] = {}
        stack = [(term, False) for term in reversed(self._program.outputs)]
        while stack:
            term, ready = stack.pop()
            if term in forms or term.operator is INPUT or term.operator is LITERAL:
                continue
            form = self._form(term)
            if ready:
                forms[term] = form
                continue
            stack.append((term, True))
            stack.extend((operand, False) for operand in reversed(form.operands))
        return forms

    def _form(self, term: Term) -> TermSpelling:
        if term.operator.name == "matmul":
            return product(term, self._chosen[term])
        if term.operator.name == "rms_norm":
            return TermSpelling((spelled_out(term),), lambda expression: expression)
        if term.operator.name == "reshape":
            inner = term.arguments[0]
            if inner.operator.name == "matmul" and len(term.shape) == 1:
                form = vector_product(inner, self._chosen[inner])
                if form is not None:
                    return form
        return TermSpelling(term.arguments, lambda *operands: operator_expression(term, operands))

    def _define(self, term: Term, form: TermSpelling, uses: int) -> None:
        """Names a term's value, or keeps its expression for the one place where it is used."""
        # Beside an array 2 and 2.0 are the same; between literals alone 2 would make an integer.
        whole = any(operand.dtype is not DType.WEAK for operand in form.operands)
        operands = [self._operand(operand, whole) for operand in form.operands]
        piece = form.write(*operands)
        # What is used once and short stands where it is used.
        if uses > 1 or len(piece.text) > _INLINE:
            name = next(self._free)
            self._lines.extend(fold_line(f"{name} = {piece.text}"))
            piece = SourceExpression(name)
        self._pieces[term] = piece

    def _operand(self, term: Term, whole: bool) -> SourceExpression:
        if term.operator is LITERAL:
            return number(term.parameter("value"), whole)
        return self._pieces[term]

    def _output(self, term: Term) -> str:
        if term.operator is LITERAL:
            return f"jnp.asarray({number(term.parameter('value'), False).text})"
        return self._pieces[term].text


def module(functions: str) -> str:
    """A module of these functions, with the imports that they need."""
    return "\n".join([*_imports(functions), "", "", functions]).lstrip()


def _imports(function: str) -> Iterator[str]:
    for module, line in (
        (r"\bjax\.", "import jax"),
        (r"\bjnp\.", "import jax.numpy as jnp"),
        (r"\blax\.", "from jax import lax"),
        (r"\bpl\.", "from jax.experimental import pallas as pl"),
        (rf"\b{dialect.ALIAS}\.", dialect.IMPORT),
    ):
        if re.search(module, function):
            yield line


def renamed(source: str, names: Mapping[str, str], old_name: str, new_name: str) -> str:
    """The source with the functions of `names` by other names, and what `old_name` calls named
    after `new_name`.

    Functions of `names` are only defined: none of them is called by another. Kernels that a
    function calls are, and so is the name that a kernel has for whoever looks at a device.
    """
    called = [] if old_name == new_name else _functions(source)
    used = {*names, *names.values()}
    helpers = {
        helper: _free(_after(helper, old_name, new_name), used)
        for helper in called
        if helper not in names
    }

    def defined(match: re.Match[str]) -> str:
        return f"def {names.get(match[1], match[1])}"

    text = _used(source, helpers) if helpers else source
    return re.sub(r"^def (\w+)", defined, text, flags=re.MULTILINE)


def with_parameters(source: str, function: str, parameters: Sequence[str]) -> str:
    """The source, a function's first parameters by these names, so that it is called by them.

    What else has such a name in the function gets another one. A name that is used for what lies
    outside, such as `jnp`, is not to be had.
    """
    body = [
        definition
        for definition in ast.parse(source).body
        if isinstance(definition, ast.FunctionDef)
    ]
    inner = next(definition for definition in body if definition.name == function)
    arguments = [argument.arg for argument in (*inner.args.args, *inner.args.kwonlyargs)][
        : len(parameters)
    ]
    if arguments == list(parameters):
        return source
    places = list(_variables(inner))
    local = {place.name for place in places if place.binds}
    outside = {place.name for place in places} - local | _fixed(inner) - {*arguments}
    used = {*local, *outside, *keyword.kwlist}
    names: dict[str, str] = {}
    for old, new in zip(arguments, parameters, strict=True):
        fits = new.isidentifier() and new not in {*outside, *names.values(), *keyword.kwlist}
        names[old] = new if fits else free_name(new, used)
    used |= {*names.values()}
    for name in sorted(local.intersection(names.values()) - names.keys()):
        names[name] = free_name(name, used)
    return _replaced(source, [place for place in places if place.name in names], names)


class _Place(NamedTuple):
    """Where a variable is named: its line, the bytes before it in that line, and its name."""

    line: int
    column: int
    name: str
    binds: bool


def _variables(function: ast.FunctionDef) -> Iterator[_Place]:
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name, lineno=line, col_offset=column, ctx=context):
                yield _Place(line, column, name, isinstance(context, ast.Store))
            case ast.arg(arg=name, lineno=line, col_offset=column):
                yield _Place(line, column, name, binds=True)


def _fixed(function: ast.FunctionDef) -> set[str]:
    """Names in a function that do not change: of functions, imports, and options of a call."""
    fixed = set()
    for node in ast.walk(function):
        match node:
            case ast.FunctionDef(name=name, args=args):
                fixed |= {name, *(argument.arg for argument in args.kwonlyargs)}
            case ast.alias(name=name, asname=alias):
                fixed.add(alias or name)
    return fixed


def _replaced(source: str, places: Iterable[_Place], names: Mapping[str, str]) -> str:
    # `ast` counts columns in bytes of UTF-8.
    lines = [line.encode() for line in source.split("\n")]
    for line, column, name, _ in sorted(places, reverse=True):
        text = lines[line - 1]
        tail = text[column + len(name.encode()) :]
        lines[line - 1] = text[:column] + names[name].encode() + tail
    return b"\n".join(lines).decode()


def _free(preferred: str, used: set[str]) -> str:
    """An underscored name that is not among `used`, to which it is added."""
    free = preferred
    while free in used:
        free = f"_{free}"
    used.add(free)
    return free


def _after(helper: str, old_name: str, new_name: str) -> str:
    """A helper's name after `new_name`, underscored; a lone kernel becomes `_new_kernel`."""
    suffix = (
        "kernel" if helper == f"_{old_name}" else helper.removeprefix(f"_{old_name}_").strip("_")
    )
    return f"_{new_name}_{suffix}"


def _used(source: str, helpers: Mapping[str, str]) -> str:
    """The source with each of `helpers` by its other name, wherever it is named or quoted."""
    quoted_names = {
        f'"{helper.lstrip("_")}"': f'"{replacement.lstrip("_")}"'
        for helper, replacement in helpers.items()
    }
    every = {**helpers, **quoted_names}
    bare = "|".join(map(re.escape, _longest(helpers)))
    quoted = "|".join(map(re.escape, _longest(quoted_names)))
    return re.sub(rf"\b(?:{bare})\b|{quoted}", lambda match: every[match[0]], source)


def _longest(names: Iterable[str]) -> list[str]:
    return sorted(names, key=len, reverse=True)


def _functions(source: str) -> list[str]:
    return [
        definition.name
        for definition in ast.parse(source).body
        if isinstance(definition, ast.FunctionDef)
    ]
