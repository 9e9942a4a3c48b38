"""Which loops of C++ count: their variable, bounds and step are known when they begin."""

from __future__ import annotations

from ..ir.operations import ConstantOperand, Operand
from . import clang, layout, loops, scanner
from .cursors import Cursor, Held
from .expressions import Expressions

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_UPWARDS, _DOWNWARDS = ("<", "<="), (">", ">=")


class Counting(Expressions):
    """Recognizes loops that count."""

    def counting(
        self,
        initial: Cursor | None,
        condition: Cursor | None,
        increment: Cursor | None,
        body: Cursor,
    ) -> tuple[Cursor, Operand, Operand, int] | None:
        """The variable, bounds and step of a loop whose count is known when it begins."""
        if condition is None or increment is None:
            return None
        if scanner.jumps(body, in_loop=False) & {"break", "return"}:
            return None
        variable = self._counter(initial)
        if variable is None:
            return None
        type = layout.scalar(variable.type)
        assigned = scanner.assigned([body, condition])
        if type is None or not type.is_integer or variable.hash in assigned:
            return None
        test = scanner.stripped(condition)
        step = self._step(increment, variable)
        if test.kind.name != "BINARY_OPERATOR" or not step:
            return None
        operator, (left, right) = clang.binary(test), clang.children(test)
        if not loops.names(left, variable):
            left, right, operator = right, left, _FLIPPED.get(operator, "")
        allowed = _UPWARDS if step > 0 else _DOWNWARDS
        if (
            operator not in allowed
            or not loops.names(left, variable)
            or not loops.is_fixed(right, assigned)
        ):
            return None
        if variable.hash in {item.referenced.hash for item in loops.references(right)}:
            return None
        return self._bounds(variable, left, right, operator, step)

    def _counter(self, initial: Cursor | None) -> Cursor | None:
        """The variable that a loop's first part declares, or assigns if there was one before."""
        if initial is None:
            return None
        variable: Cursor | None = None
        if initial.kind.name == "DECL_STMT":
            declared = clang.children(initial)
            variable = declared[0] if len(declared) == 1 else None
        else:
            node = scanner.stripped(initial)
            if node.kind.name == "BINARY_OPERATOR" and clang.binary(node) == "=":
                target = scanner.stripped(clang.children(node)[0])
                variable = target.referenced if target.kind.name == "DECL_REF_EXPR" else None
        held = variable is not None and isinstance(self.places.get(variable.hash), Held)
        return variable if held else None

    def left(
        self, initial: Cursor | None, variable: Cursor, low: Operand, high: Operand, step: int
    ) -> None:
        """Has a variable that was there before its loop hold the first value that ended it."""
        if initial is None or initial.kind.name == "DECL_STMT":
            return
        builder, type = self.builder, low.type
        away = builder.compute("sub", type, *((high, low) if step > 0 else (low, high)))
        if abs(step) > 1:
            less, size = (ConstantOperand(item, type) for item in (abs(step) - 1, abs(step)))
            away = builder.compute("div", type, builder.compute("add", type, away, less), size)
            away = builder.compute("mul", type, away, size)
        after = builder.compute("add" if step > 0 else "sub", type, low, away)
        runs = builder.compare("lt" if step > 0 else "gt", low, high)
        last = builder.compute("select", type, runs, after, low)
        declared = layout.scalar(variable.type)
        assert declared is not None
        self.write(self.places[variable.hash], (builder.cast(last, declared),))

    def _bounds(
        self, variable: Cursor, left: Cursor, right: Cursor, operator: str, step: int
    ) -> tuple[Cursor, Operand, Operand, int] | None:
        compared, type = layout.scalar(left.type), layout.scalar(variable.type)
        (low,) = self.read(self.places[variable.hash])
        if compared is None or not compared.is_integer:
            return None
        if compared is not type:
            # As a larger or unsigned type, it counts the same if it never was below zero.
            if step < 0 or not isinstance(low, ConstantOperand) or low.value < 0:
                return None
            low = self.builder.cast(low, compared)
        if step < 0 and not compared.is_signed:
            return None
        high = self.builder.cast(self.scalar(right), compared)
        if operator in ("<=", ">="):
            first = ConstantOperand(1 if step > 0 else -1, compared)
            high = self.builder.compute("add", compared, high, first)
        return variable, low, high, step

    def _step(self, increment: Cursor, variable: Cursor) -> int:
        """By how much a loop's third part moves the variable; 0 if that is not known."""
        node = scanner.stripped(increment)
        inner = clang.children(node)
        if not inner or not loops.names(inner[0], variable):
            return 0
        if node.kind.name == "UNARY_OPERATOR":
            return {"++": 1, "--": -1}.get(clang.unary(node).removeprefix("post"), 0)
        if node.kind.name == "COMPOUND_ASSIGNMENT_OPERATOR":
            sign = {"+=": 1, "-=": -1}.get(clang.binary(node), 0)
            return sign * loops.whole(inner[1])
        if node.kind.name == "BINARY_OPERATOR" and clang.binary(node) == "=":
            total = scanner.stripped(inner[1])
            if total.kind.name == "BINARY_OPERATOR" and clang.binary(total) in ("+", "-"):
                first, second = clang.children(total)
                if loops.names(first, variable):
                    return loops.whole(second) * (1 if clang.binary(total) == "+" else -1)
        return 0
