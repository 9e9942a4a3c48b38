"""Straight-line programs: read, run, normalised, and written as text or as SMT-LIB.

`t1 = sub x 1; t2 = and x t1` turns off the rightmost 1 of x.
"""

from __future__ import annotations

from msgspec import Struct

from .instructions import OPERATORS, literal


class Instruction(Struct, frozen=True):
    """One operator applied to values by number: inputs first, then constants, then results."""

    operator: str
    operands: tuple[int, ...]


class StraightLineProgram(Struct, frozen=True):
    """Instructions run in order; the last one's result is the program's."""

    inputs: tuple[str, ...]
    constants: tuple[int, ...]
    code: tuple[Instruction, ...]

    def run(self, width: int, arguments: tuple[int, ...]) -> int:
        """The result of the program on unsigned words of `width` bits."""
        values = [*arguments, *self.constants]
        for step in self.code:
            a, b = (values[step.operands[0]], values[step.operands[-1]])
            values.append(OPERATORS[step.operator].meaning(width)(a, b))
        return values[-1]

    def text(self) -> str:
        """Writes `t1 = sub x 1; t2 = and x t1`."""
        names = self._names([str(value) for value in self.constants])
        return "; ".join(
            f"{name} = {step.operator} {' '.join(names[value] for value in step.operands)}"
            for name, step in zip(self._results(), self.code, strict=True)
        )

    def term(self, width: int) -> str:
        """The result as an SMT-LIB term over the inputs, every instruction bound once by `let`."""
        names = self._names([literal(value, width) for value in self.constants])
        bindings = []
        for name, step in zip(self._results(), self.code, strict=True):
            a, b = names[step.operands[0]], names[step.operands[-1]]
            bindings.append(f"(let (({name} {OPERATORS[step.operator].term(width, a, b)})) ")
        return "".join(bindings) + names[-1] + ")" * len(bindings)

    def normalised(self) -> StraightLineProgram:
        """The same program whatever the order of its instructions and commuting operands.

        An instruction that the result does not depend on is dropped.
        """
        order = _Order(self)
        order.visit(len(self.inputs) + len(self.constants) + len(self.code) - 1)
        return StraightLineProgram(self.inputs, self.constants, tuple(order.code))

    def _results(self) -> list[str]:
        return [f"t{number}" for number in range(1, len(self.code) + 1)]

    def _names(self, constants: list[str]) -> list[str]:
        return [*self.inputs, *constants, *self._results()]


def read_program(text: str, inputs: tuple[str, ...], width: int) -> StraightLineProgram:
    """Reads what `StraightLineProgram.text` writes; the names of the results may be left out."""
    steps = [step.split("=")[-1].split() for step in text.split(";")]
    words = dict.fromkeys(word for step in steps for word in step[1:])
    values = {
        word: constant(word, width)
        for word in words
        if word not in inputs and not (word[0] == "t" and word[1:].isdigit())
    }
    constants = tuple(dict.fromkeys(values.values()))
    leaves = len(inputs) + len(constants)
    places = {name: place for place, name in enumerate(inputs)}
    places |= {word: len(inputs) + constants.index(value) for word, value in values.items()}
    places |= {f"t{number + 1}": leaves + number for number in range(len(steps))}
    code = [Instruction(step[0], tuple(places[word] for word in step[1:])) for step in steps]
    return StraightLineProgram(inputs, constants, tuple(code))


def constant(word: str, width: int) -> int:
    """The value of a decimal number, of `w-4` or `w/2`, or of `low`, the mask of a low half.

    A hexadecimal number is a pattern of bytes that is repeated over the width.
    """
    if word == "low":
        return (1 << width // 2) - 1
    if word.startswith("0x"):
        return int.from_bytes(bytes.fromhex(word[2:]) * (width // 8), "big")
    if word.startswith("w-"):
        return width - int(word[2:])
    return width // int(word[2:]) if word.startswith("w/") else int(word)


class _Order:
    """Emits instructions depth first from the result, commuting operands by their expressions."""

    def __init__(self, program: StraightLineProgram) -> None:
        self.code: list[Instruction] = []
        self._given = len(program.inputs) + len(program.constants)
        self._source = program.code
        self._places = {number: number for number in range(self._given)}
        # Operands are compared by their whole expressions, which do not depend on the order of
        # instructions.
        self._expressions = [str(number) for number in range(self._given)]
        for step in program.code:
            self._expressions.append(self._expression(step))

    def visit(self, value: int) -> int:
        """Emits what `value` needs and then itself, once, and gives its new number."""
        if value not in self._places:
            step = self._source[value - self._given]
            operands = tuple(self.visit(operand) for operand in self._sorted(step))
            self._places[value] = self._given + len(self.code)
            self.code.append(Instruction(step.operator, operands))
        return self._places[value]

    def _expression(self, step: Instruction) -> str:
        operands = [self._expressions[operand] for operand in self._sorted(step)]
        return f"({step.operator} {' '.join(operands)})"

    def _sorted(self, step: Instruction) -> list[int]:
        if OPERATORS[step.operator].commutative:
            return sorted(step.operands, key=self._expressions.__getitem__)
        return list(step.operands)
