"""Parser of programs in the text format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..errors import FormatError, ShapeError, TensorError, UnknownOperator
from ..mugraph import ACCUMULATE, LOAD, WRITE, Block, read, write
from ..operator import OperatorParameter
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
_TILES = (Place.LOOP, Place.AFTER)


def parse(text: str) -> Program:
    """The program of a text; raises FormatError that shows the line and what was expected."""
    return _Parser(text).program()


class _Parser(LiteralParser):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._terms: dict[str, Term] = {}
        self._block: Block | None = None
        self._local: list[str] = []
        self._in_thread = False
        self._depth = 0

    def program(self) -> Program:
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
        made = self._made(start, lambda: Program(name, tuple(inputs), tuple(outputs)))
        return self.ended(made)

    def _made(self, token: Token, make: Callable[[], T]) -> T:
        """What can be made there; an error in it names the place."""
        try:
            return make()
        except UnknownOperator as error:
            raise UnknownOperator(error.name, shown(self.text, token.start)) from None
        except ShapeError as error:
            raise MisfitError(placed(self.text, token.start, str(error))) from error
        except FormatError:
            raise
        except TensorError as error:
            raise FormatError(placed(self.text, token.start, str(error))) from error

    def _input(self) -> Term:
        start = self.token
        name = self.name("an input's name")
        self.expect(":")
        dtype = self.name("an element type")
        axes = self.several("[", "]", self._axis)
        shape, labels = [size for _, size in axes], [label for label, _ in axes]
        self._made(start, lambda: check_shape(shape))
        term = self._made(start, lambda: tensor(name, dtype, shape, labels))
        self._bind(start, term)
        return term

    def _axis(self) -> tuple[str | None, Dim]:
        if not self.at("=", 1):
            return None, self.size()
        label = self.name("a label")
        self.expect("=")
        return label, self.size()

    def _statement(self) -> None:
        targets = [self._target()]
        while self.accept(","):
            targets.append(self._target())
        self.expect("=")
        values: Sequence[Term]
        if self._block is None and self.at("kernel"):
            values = self._kernel()
        else:
            values = [self._expression()]
        if len(values) != len(targets):
            self.fail(f"{len(targets)} names for {len(values)} results", targets[0])
        for target, term in zip(targets, values, strict=True):
            if target.text != "_" or target.form is TokenKind.QUOTED:
                self._bind(target, term)

    def _target(self) -> Token:
        token = self.token
        self.name("a name to define, 'return' or '}'")
        return token

    def _bind(self, token: Token, term: Term) -> None:
        if token.text in self._terms:
            self.fail(f"{token.text!r} is defined already", token)
        self._terms[token.text] = term
        if self._block is not None:
            self._local.append(token.text)

    def _kernel(self) -> Sequence[Term]:
        start = self.next()
        given = self._parameters(KERNEL_PARAMETERS)
        self._made(start, lambda: check_shape((*given["grid"], given["range"])))
        block = self._block = self._made(start, lambda: Block(given["grid"], given["range"]))
        stores: list[tuple[Term, Any]] = []
        self.expect("{")
        while not self.accept("}"):
            if self.at("thread"):
                self._thread()
            elif self.at("store"):
                stores.append(self._store())
            else:
                self._statement()
        found = self._made(start, lambda: [check(term) for term in block.results(*stores)])
        for name in self._local:
            del self._terms[name]
        self._local, self._block = [], None
        return found

    def _thread(self) -> None:
        self.next()
        self.expect("{")
        self._in_thread = True
        while not self.accept("}"):
            self._statement()
        self._in_thread = False

    def _store(self) -> tuple[Term, Any]:
        self.next()
        start = self.token
        operands, given = self._arguments(STORE_PARAMETERS)
        if len(operands) != 1:
            self.fail(f"store takes one tile, not {len(operands)}", start)
        return operands[0], given.get("map", ())

    def _expression(self) -> Term:
        """A name, a number, or a call."""
        token = self.token
        if token.form is TokenKind.NAME and self.at("(", 1):
            return self._call()
        if token.form in (TokenKind.NAME, TokenKind.QUOTED) and not self.at("inf"):
            return self._named()
        number = self.plain_number()
        return self._made(token, lambda: literal(number))

    def _operand(self) -> Term:
        """An expression; in a thread, tiles are read."""
        term = self._expression()
        return read(term) if self._in_thread and term.place in _TILES else term

    def _named(self) -> Term:
        term = self._terms.get(self.token.text)
        if term is None:
            self.fail(f"nothing is named {self.token} here")
        self.next()
        return term

    def _call(self) -> Term:
        start = self.next()
        self._depth += 1
        if self._depth > _DEEPEST:
            self.fail(f"more than {_DEEPEST} calls within one another: name some", start)
        term = self._size_literal() if start.text == "size" else self._applied(start)
        self._depth -= 1
        return term

    def _size_literal(self) -> Term:
        start = self.token
        self.expect("(")
        size = self.size()
        self.expect(")")
        self._made(start, lambda: check_shape([size]))
        return self._made(start, lambda: literal(size))

    def _applied(self, start: Token) -> Term:
        operator = self._made(start, lambda: declared(start.text))
        if operator is None:
            return self._special(start)
        operands, given = self._arguments(operator.parameters)
        return self._made(start, lambda: build(operator, operands, given))

    def _special(self, start: Token) -> Term:
        """What only a block has."""
        block, parameters = self._block, BLOCK_PARAMETERS.get(start.text)
        if block is None or parameters is None or self._in_thread is not (start.text == WRITE.name):
            self.fail(f"{start.text!r} has no place here", start)
        operands, given = self._arguments(parameters)
        if len(operands) != 1:
            self.fail(f"{start.text} takes one operand, not {len(operands)}", start)
        makers: dict[str, Callable[..., Term]] = {
            LOAD.name: block.load, ACCUMULATE.name: block.accumulate, WRITE.name: write
        }  # fmt: skip
        return self._made(start, lambda: check(makers[start.text](operands[0], **given)))

    def _parameters(self, parameters: Sequence[OperatorParameter]) -> dict[str, Any]:
        start = self.token
        operands, given = self._arguments(parameters)
        if operands or len(given) != len(parameters):
            names = ", ".join(parameter.name for parameter in parameters)
            self.fail(f"expected {names}", start)
        return given

    def _arguments(
        self, parameters: Sequence[OperatorParameter]
    ) -> tuple[list[Term], dict[str, Any]]:
        """Operands, then parameters by name."""
        kinds = {parameter.name: parameter.kind for parameter in parameters}
        operands: list[Term] = []
        given: dict[str, Any] = {}

        def one() -> None:
            if not self.at("=", 1):
                operands.append(self._operand())
                return
            token = self.next()
            if token.text not in kinds or token.text in given:
                known = ", ".join(name for name in kinds if name not in given) or "none"
                self.fail(f"no parameter {token} here: there are {known}", token)
            self.expect("=")
            given[token.text] = self.value(kinds[token.text])

        self.several("(", ")", one)
        return operands, given
