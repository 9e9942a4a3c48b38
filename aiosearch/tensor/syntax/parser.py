"""Parser of programs in the text format: recursive descent, one method for each rule.

The grammar, with names in quotes where they are keywords:

    program = "program" name "(" inputs ")" "{" statement* "return" expression ("," expression)* "}"
    input = name ":" dtype "[" axis, ... "]"
    axis = (label "=")? size
    statement = name ("," name)* "=" (kernel | expression)
    kernel = "kernel" arguments "{" (thread | "store" arguments | statement)* "}"
    thread = "thread" "{" statement* "}"
    expression = name | number | operator "(" expression, ..., parameter "=" value, ... ")"

Example: `program p(X: f32[row=8, 4]) { y = exp(X) return sum(y, axes=[1]) }` binds X to an input of
shape [8, 4] and y to the term `exp`, and returns the program of one output.

Terms are built while reading (`checked_terms.build`), so that an operand of the wrong shape is
reported at its line: no syntax tree is kept. Names are bound once; those of a block end with its
kernel.

Invariant: `parse(write(program))` is the program itself, term by term. Cost: linear in the text;
calls nest at most `_DEEPEST` deep, so that no text exhausts the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..errors import FormatError, ShapeError, TensorError, UnknownOperator
from ..mugraph import ACCUMULATE, LOAD, WRITE, Block, read, write
from ..operator import OperatorParameter, Parameters
from ..sizes import Dim
from ..terms import Program, Term, literal, tensor
from ..types import Place
from .checked_terms import (
    BLOCK_PARAMETERS,
    KERNEL_PARAMETERS,
    STORE_PARAMETERS,
    MisfitError,
    build,
    check,
    check_shape,
    declared,
)
from .literals import LiteralParser
from .tokens import Token, TokenKind, placed, shown

T = TypeVar("T")

_DEEPEST = 50
"""The deepest nesting of calls; each level takes a few Python frames."""
_TILES = (Place.LOOP, Place.AFTER)
"""Places of values that a thread has to read before use."""


def parse(text: str) -> Program:
    """The program of a text; raises FormatError that shows the line and what was expected."""
    return _Parser(text).program()


class _Parser(LiteralParser):
    """The state of one parse: names in scope, and the block or thread that is read."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._terms: dict[str, Term] = {}
        self._block: Block | None = None
        self._local: list[str] = []
        self._in_thread = False
        self._depth = 0

    def program(self) -> Program:
        """A whole text."""
        start = self.token
        self.expect("program")
        name = self.name("the program's name")
        inputs = self.several("(", ")", self._input)
        self.expect("{")
        while not self.at("return"):
            self._statement()
        self.expect("return")
        outputs = [self._expression()]
        while self.accept(","):
            outputs.append(self._expression())
        self.expect("}")
        program = self._located(start, lambda: Program(name, tuple(inputs), tuple(outputs)))
        return self.ended(program)

    def _located(self, token: Token, make: Callable[[], T]) -> T:
        """The result of `make`; an error in it names the line of `token`."""
        try:
            return make()
        except UnknownOperator as error:
            raise UnknownOperator(error.name, shown(self.text, token.start)) from None
        except ShapeError as error:
            raise MisfitError(placed(self.text, token.start, str(error))) from error
        # Located already, by a nested call.
        except FormatError:
            raise
        except TensorError as error:
            raise FormatError(placed(self.text, token.start, str(error))) from error

    def _input(self) -> Term:
        """An input with its element type and axes."""
        start = self.token
        name = self.name("an input's name")
        self.expect(":")
        dtype = self.name("an element type")
        axes = self.several("[", "]", self._axis)
        shape, labels = [size for _, size in axes], [label for label, _ in axes]
        self._located(start, lambda: check_shape(shape))
        term = self._located(start, lambda: tensor(name, dtype, shape, labels))
        self._bind(start, term)
        return term

    def _axis(self) -> tuple[str | None, Dim]:
        """An axis: `row=8`, or a size alone."""
        if not self.at("=", 1):
            return None, self.size()
        label = self.name("a label")
        self.expect("=")
        return label, self.size()

    def _statement(self) -> None:
        """Binds one or more names to the results of an expression or kernel."""
        targets = [self._target()]
        while self.accept(","):
            targets.append(self._target())
        self.expect("=")
        values: Sequence[Term]
        if self._block is None and self.at("kernel"):
            # Kernels do not nest, and they alone give several results.
            values = self._kernel()
        else:
            values = [self._expression()]
        if len(values) != len(targets):
            self.fail(f"{len(targets)} names for {len(values)} results", targets[0])
        for target, term in zip(targets, values, strict=True):
            # A quoted "_" is an ordinary name.
            if target.text != "_" or target.form is TokenKind.QUOTED:
                self._bind(target, term)

    def _target(self) -> Token:
        """A name to define; `_` stands for a result that is not used."""
        token = self.token
        self.name("a name to define, 'return' or '}'")
        return token

    def _bind(self, token: Token, term: Term) -> None:
        """Defines a name, in the block if one is open."""
        if token.text in self._terms:
            self.fail(f"{token.text!r} is defined already", token)
        self._terms[token.text] = term
        if self._block is not None:
            self._local.append(token.text)

    def _kernel(self) -> Sequence[Term]:
        """A kernel with its block graph; the tensors that it stores."""
        start = self.next()
        schedule = self._parameters(KERNEL_PARAMETERS)
        self._located(start, lambda: check_shape((*schedule["grid"], schedule["range"])))
        block = self._block = self._located(
            start, lambda: Block(schedule["grid"], schedule["range"])
        )
        stores: list[tuple[Term, Any]] = []
        self.expect("{")
        while not self.accept("}"):
            if self.at("thread"):
                self._thread()
            elif self.at("store"):
                stores.append(self._store())
            else:
                self._statement()
        tensors = self._located(start, lambda: [check(term) for term in block.results(*stores)])
        for name in self._local:
            # Names of the block end here: a tile has no meaning outside of its kernel.
            del self._terms[name]
        self._local, self._block = [], None
        return tensors

    def _thread(self) -> None:
        """Statements on registers, between reads and writes."""
        self.next()
        self.expect("{")
        self._in_thread = True
        while not self.accept("}"):
            self._statement()
        self._in_thread = False

    def _store(self) -> tuple[Term, Any]:
        """A tile and the map that it is stored by."""
        self.next()
        start = self.token
        operands, keywords = self._arguments(STORE_PARAMETERS)
        if len(operands) != 1:
            self.fail(f"store takes one tile, not {len(operands)}", start)
        return operands[0], keywords.get("map", ())

    def _expression(self) -> Term:
        """A name, a number, or a call."""
        token = self.token
        # One token of look-ahead tells a call from a name.
        if token.form is TokenKind.NAME and self.at("(", 1):
            return self._call()
        if token.form in (TokenKind.NAME, TokenKind.QUOTED) and not self.at("inf"):
            return self._named()
        number = self.plain_number()
        return self._located(token, lambda: literal(number))

    def _operand(self) -> Term:
        """An expression; in a thread, tiles are read."""
        term = self._expression()
        # Reads are implicit in the text: a tile that a thread uses is read where it is used.
        return read(term) if self._in_thread and term.place in _TILES else term

    def _named(self) -> Term:
        """The term that a name is bound to."""
        term = self._terms.get(self.token.text)
        if term is None:
            self.fail(f"nothing is named {self.token} here")
        self.next()
        return term

    def _call(self) -> Term:
        """An operator applied to arguments."""
        start = self.next()
        self._depth += 1
        if self._depth > _DEEPEST:
            self.fail(f"more than {_DEEPEST} calls within one another: name some", start)
        term = self._size_literal() if start.text == "size" else self._applied(start)
        # Not in a finally: after an error the parser is done.
        self._depth -= 1
        return term

    def _size_literal(self) -> Term:
        """A symbolic size as a value: `size(n)`."""
        start = self.token
        self.expect("(")
        size = self.size()
        self.expect(")")
        self._located(start, lambda: check_shape([size]))
        return self._located(start, lambda: literal(size))

    def _applied(self, start: Token) -> Term:
        """An operator of the language; those of blocks are left to `_special`."""
        operator = self._located(start, lambda: declared(start.text))
        if operator is None:
            return self._special(start)
        operands, keywords = self._arguments(operator.parameters)
        return self._located(start, lambda: build(operator, operands, keywords))

    def _special(self, start: Token) -> Term:
        """An operator that only a block has: `load`, `accumulate` or `write`."""
        block, parameters = self._block, BLOCK_PARAMETERS.get(start.text)
        # `write` belongs to threads, `load` and `accumulate` to the block around them.
        if block is None or parameters is None or self._in_thread is not (start.text == WRITE.name):
            self.fail(f"{start.text!r} has no place here", start)
        operands, keywords = self._arguments(parameters)
        if len(operands) != 1:
            self.fail(f"{start.text} takes one operand, not {len(operands)}", start)
        makers: dict[str, Callable[..., Term]] = {
            LOAD.name: block.load, ACCUMULATE.name: block.accumulate, WRITE.name: write
        }  # fmt: skip
        return self._located(start, lambda: check(makers[start.text](operands[0], **keywords)))

    def _parameters(self, parameters: Sequence[OperatorParameter]) -> Parameters:
        """All of these parameters by name, and no operands."""
        start = self.token
        operands, values = self._arguments(parameters)
        # Every parameter of a kernel is required, so that counting them is enough.
        if operands or len(values) != len(parameters):
            names = ", ".join(parameter.name for parameter in parameters)
            self.fail(f"expected {names}", start)
        return values

    def _arguments(self, parameters: Sequence[OperatorParameter]) -> tuple[list[Term], Parameters]:
        """Operands, then parameters by name."""
        kinds = {parameter.name: parameter.kind for parameter in parameters}
        operands: list[Term] = []
        values: Parameters = {}

        def argument() -> None:
            # `name =` begins a parameter; everything else is an operand.
            if not self.at("=", 1):
                operands.append(self._operand())
                return
            token = self.next()
            if token.text not in kinds or token.text in values:
                unused = ", ".join(name for name in kinds if name not in values) or "none"
                self.fail(f"no parameter {token} here: there are {unused}", token)
            self.expect("=")
            values[token.text] = self.value(kinds[token.text])

        self.several("(", ")", argument)
        return operands, values
