"""A Python function as a kernel of the IR, typed from its arguments.

The control flow is translated as that of C++ is, by `Translator`: flags for jumps, results for what
branches assign. What differs is that Python declares no types. A variable has the one type that
holds everything that is assigned to it anywhere, as in Numba:

    s = 0                 an int64 so far
    s += x[i]             x holds floats, so s is a float64 from the beginning

The translation is done again with the types that it found, until they stay. Types only grow, and
there are few, so that ends after two or three times.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..errors import SourceError, UnsupportedConstruct
from ..frontend.places import Held
from ..frontend.translating import Translator, _Frame, _Loop
from ..ir.building import block, moved
from ..ir.operations import (
    Address,
    Atomic,
    Barrier,
    Call,
    Constant,
    Function,
    Load,
    Location,
    Operand,
    Parameter,
    Space,
    Store,
    Value,
    Warp,
)
from ..ir.types import Scalar
from ..passes.rewriting import substituted
from .typing import computed, promoted, scalar_of

_FALSE, _TRUE = Constant(False, Scalar.BOOL), Constant(True, Scalar.BOOL)
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or",
    ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
_COMPARISONS = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_MATH = {
    name: name
    for name in [
        "sqrt",
        "exp",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "lgamma",
        "floor",
        "ceil",
        "trunc",
    ]
} | {"fabs": "abs", "gamma": "tgamma", "cbrt": "cbrt", "exp2": "exp2"}
_ATOMICS = {
    "add": "add", "sub": "sub", "max": "max", "min": "min", "and_": "and", "or_": "or",
    "xor": "xor", "exch": "exch", "inc": "inc", "dec": "dec",
}  # fmt: skip
_SHUFFLES = {
    "shfl_sync": "idx", "shfl_up_sync": "up", "shfl_down_sync": "down", "shfl_xor_sync": "xor",
}  # fmt: skip
_VOTES = {"ballot_sync": "ballot", "any_sync": "any", "all_sync": "all"}


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An argument that is a contiguous array."""

    element: Scalar
    dimensions: int


@dataclass(frozen=True, slots=True)
class _Array:
    """An array in a kernel: where it begins, and its sizes."""

    base: Operand
    element: Scalar
    shape: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class _Attribute:
    """A name such as `cuda.atomic.add`, or an attribute of an array, that is called later."""

    path: str
    owner: _Array | None = None


def translate(function: Any, types: Sequence[Scalar | ArrayType]) -> Function:
    """The kernel that a function is for arguments of these types."""
    known: dict[str, Scalar] = {}
    while True:
        translator = _Python(function, known)
        kernel = translator.kernel(types)
        if translator.found == known:
            return kernel
        known = translator.found


class _Python(Translator):
    def __init__(self, function: Any, known: dict[str, Scalar]) -> None:
        super().__init__(is_kernel=True)
        self.found: dict[str, Scalar] = dict(known)
        """The types of variables, by function and name."""
        self._known = known
        self._natural: set[Operand] = set()
        """Values that are not negative, so that an index needs no test for that."""
        self._names: dict[str, Any] = {}
        self._scope = function.__name__
        self._globals: dict[str, Any] = {}
        self._line = 0
        self._file = ""
        self._tree = self._enter_source(function)

    def _enter_source(self, function: Any) -> ast.FunctionDef:
        """Reads a function's text, and takes over the names that it sees."""
        try:
            lines, self._line = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise SourceError(f"the text of {function.__name__} cannot be found") from None
        self._file = inspect.getsourcefile(function) or ""
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise SourceError(f"{function.__name__} is no function with a name")
        closure = inspect.getclosurevars(function)
        self._globals = {**closure.builtins, **closure.globals, **closure.nonlocals}
        return tree

    def _at(self, node: ast.AST) -> Location:
        """Where a node stands; what has no place of its own is where the last one was."""
        if not hasattr(node, "lineno"):
            return self.builder.at
        return Location(self._file, self._line + node.lineno - 1)

    def _refuse(self, node: ast.AST, construct: str) -> UnsupportedConstruct:
        return UnsupportedConstruct(construct, self._at(node))

    def kernel(self, types: Sequence[Scalar | ArrayType]) -> Function:
        """Translates the function as a kernel."""
        tree, parameters = self._tree, list[Parameter]()
        names = [each.arg for each in tree.args.args]
        if len(names) != len(types):
            raise SourceError(f"{tree.name} takes {len(names)} arguments, not {len(types)}")
        self._waits = any(
            isinstance(each, ast.Attribute) and each.attr == "syncthreads"
            for each in ast.walk(tree)
        )
        self._frames.append(_Frame(tree.name, self.new_key((_FALSE,)), None))
        for name, type in zip(names, types, strict=True):
            parameters += self._argument(name, type)
        self._declare(tree)
        self.statements(tree.body)
        lines = [*self.builder.prologue, *self.builder.lines]
        whole = substituted(block(lines), self._kept)
        at = Location(self._file, self._line)
        return Function(tree.name, tuple(parameters), whole, (), True, at)

    def _argument(self, name: str, type: Scalar | ArrayType) -> list[Parameter]:
        if isinstance(type, Scalar):
            value = self.builder.value(type, name)
            self._assign(name, value)
            return [Parameter(value, name)]
        base = self.builder.value(Scalar.PTR, name)
        sizes = [self.builder.value(Scalar.I64, f"{name}.size") for _ in range(type.dimensions)]
        self._natural.update(sizes)
        self._names[name] = _Array(base, type.element, tuple(sizes))
        listed = [Parameter(base, name, type.element, False, type.element.size)]
        return [*listed, *(Parameter(size, f"{name}.shape") for size in sizes)]

    def _declare(self, tree: ast.FunctionDef) -> None:
        """Begins every variable whose type is known, so that branches may assign it first."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                type = self._known.get(f"{self._scope}.{node.id}")
                if type is not None and node.id not in self._names:
                    self._names[node.id] = self.held(None, (Constant(0, type),))

    # --- variables

    def _assign(self, name: str, value: Operand) -> None:
        label = f"{self._scope}.{name}"
        before = self.found.get(label, value.type)
        self.found[label] = promoted(before, value.type)
        kept = self._known.get(label, value.type)
        cast = self.builder.cast(value, kept)
        if value in self._natural:
            self._natural.add(cast)
        place = self._names.get(name)
        if not isinstance(place, Held):
            self._names[name] = self.held(None, (cast,))
        else:
            self.environment[place.key] = (cast,)

    def _variable_value(self, place: Held) -> Operand:
        # In a first pass, what only a branch assigns is not there behind it; its type comes later.
        (value,) = self.environment.get(place.key, (_FALSE,))
        return value

    # --- statements

    def statements(self, cursors: Sequence[Any]) -> None:
        for place, node in enumerate(cursors):
            self.statement(node)
            behind = cursors[place + 1 :]
            if not behind or not _jumps(node):
                continue
            stopped = self._stopped()
            if stopped == _TRUE:
                return
            if stopped != _FALSE:
                self.branch(self.builder.negated(stopped), self._present(behind), lambda: None)
                return

    def statement(self, cursor: Any) -> None:
        self.builder.at = self._at(cursor)
        match cursor:
            case _Begin():
                cursor.action()
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self._evaluate(value)
            case ast.Assign(targets=[target], value=value):
                self._store(target, self._evaluate(value))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._store(target, self._evaluate(value))
            case ast.AugAssign(target=target, op=operator, value=value):
                read = ast.copy_location(_reading(target), target)
                sum_of = ast.copy_location(ast.BinOp(read, operator, value), cursor)
                self._store(target, self._evaluate(sum_of))
            case ast.If(test=test, body=body, orelse=orelse):
                self.branch(
                    self._truth(test),
                    lambda: self.statements(body),
                    lambda: self.statements(orelse),
                )
            case ast.While(test=test, body=body, orelse=[]):
                self._while_loop(lambda: self._truth(test), cursor, body, lambda: None)
            case ast.For(target=ast.Name(id=name), iter=ast.Call() as call, body=body, orelse=[]):
                self._for_loop(cursor, name, call, body)
            case ast.Return(value=value):
                self._return(value)
            case ast.Break():
                self.environment[self._loops[-1].broke] = (_TRUE,)
            case ast.Continue():
                self.environment[self._loops[-1].continued] = (_TRUE,)
            case _:
                raise self._refuse(cursor, f"a {type(cursor).__name__.lower()} statement")

    def _return(self, value: ast.expr | None) -> None:
        frame = self._frames[-1]
        if value is not None and len(self._frames) > 1:
            self._assign("return", self._operand(value))
        self.environment[frame.returned] = (_TRUE,)
        if self._waits and len(self._frames) == 1:
            self.builder.write(Call("exit", (), at=self.builder.at))

    def _store(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name) if isinstance(value, _Array):
                self._names[name] = value
            case ast.Name(id=name):
                self._assign(name, self._as_operand(value, target))
            case ast.Tuple(elts=elements) if isinstance(value, tuple):
                for each, one in zip(elements, value, strict=True):
                    self._store(each, one)
            case ast.Subscript():
                address, element = self._element(target)
                stored = self.builder.cast(self._as_operand(value, target), element)
                self.builder.write(Store(address, stored, element, self.builder.at))
            case _:
                raise self._refuse(target, "an assignment to this")

    def _loop_keys(self, body: Sequence[ast.stmt]) -> list[int]:
        """The variables that a loop may assign."""
        keys: set[int] = set()
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    place = self._names.get(node.id)
                    if isinstance(place, Held) and place.key in self.environment:
                        keys.add(place.key)
            if "return" in _jumps(statement):
                keys.add(self._frames[-1].returned)
                result = self._names.get("return")
                if isinstance(result, Held):
                    keys.add(result.key)
        return sorted(keys)

    def _while_loop(
        self,
        test: Callable[[], Operand],
        node: ast.stmt,
        body: Sequence[ast.stmt],
        step: Callable[[], None],
        extra: Sequence[int] = (),
    ) -> None:
        at = self.builder.at
        keys = sorted({*self._loop_keys(body), *extra})
        first = test()
        if first == _FALSE:
            return
        going = self.new_key((first,))
        before = dict(self.environment)
        carried = self._carry([going, *keys])
        with self.builder.block() as lines:
            loop = _Loop(self.new_key((_FALSE,)), self.new_key((_FALSE,)))
            self._loops.append(loop)
            self.statements(body)
            self.environment[loop.continued] = (_FALSE,)
            stopped = self._stopped()
            self._loops.pop()
            self.environment[going] = (_FALSE,)

            def proceed() -> None:
                step()
                self.environment[going] = (test(),)

            self.branch(self.builder.negated(stopped), proceed, lambda: None)
            for key in (loop.broke, loop.continued):
                self.environment.pop(key, None)
        self._finish([going, *keys], carried, before, lines, at, None)
        self.environment.pop(going, None)

    def _for_loop(self, node: ast.For, name: str, call: ast.Call, body: Sequence[ast.stmt]) -> None:
        callee = self._evaluate(call.func)
        if callee is not builtins.range:
            raise self._refuse(node, "a loop over anything but range(...)")
        bounds = [self.builder.cast(self._operand(each), Scalar.I64) for each in call.args]
        if len(bounds) == 1:
            bounds.insert(0, Constant(0, Scalar.I64))
        step = bounds[2] if len(bounds) > 2 else Constant(1, Scalar.I64)
        low, high = bounds[:2]
        if not isinstance(step, Constant):
            self._strided(node, name, (low, high, step), body)
            return
        assigned = {
            each.id
            for statement in body
            for each in ast.walk(statement)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        jumps = {jump for statement in body for jump in _jumps(statement)}
        if name in assigned or jumps & {"break", "return"}:
            self._strided(node, name, (low, high, step), body)
            return
        at = self.builder.at
        self._assign(name, low)
        place = self._names[name]
        assert isinstance(place, Held)
        keys = sorted({*self._loop_keys(body), place.key})
        before = dict(self.environment)
        carried = self._carry(keys)
        counter = self.builder.value(Scalar.I64, name)
        if step.value > 0 and (low in self._natural or _is_natural(low)):
            self._natural.add(counter)
        with self.builder.block() as lines:
            self._assign(name, counter)
            loop = _Loop(self.new_key((_FALSE,)), self.new_key((_FALSE,)))
            self._loops.append(loop)
            self.statements(body)
            self._loops.pop()
            for key in (loop.broke, loop.continued):
                self.environment.pop(key, None)
        self._finish(keys, carried, before, lines, at, (counter, low, high, int(step.value)))

    def _strided(
        self,
        node: ast.For,
        name: str,
        bounds: tuple[Operand, Operand, Operand],
        body: Sequence[ast.stmt],
    ) -> None:
        """A loop whose step is no constant, or that is left in its middle."""
        low, high, step = bounds
        builder = self.builder
        hidden = self.held(None, (low,))
        upwards = builder.compare("gt", step, Constant(0, Scalar.I64))

        def test() -> Operand:
            (place,) = self.environment[hidden.key]
            below, above = builder.compare("lt", place, high), builder.compare("gt", place, high)
            return builder.compute("select", Scalar.BOOL, upwards, below, above)

        def advance() -> None:
            (place,) = self.environment[hidden.key]
            after = builder.compute("add", Scalar.I64, place, step)
            self.environment[hidden.key] = (after,)

        self._assign(name, low)
        bound = self._names[name]
        assert isinstance(bound, Held)
        begin = _Begin(lambda: self._assign(name, self.environment[hidden.key][0]))
        self._while_loop(test, node, [begin, *body], advance, (hidden.key, bound.key))

    # --- expressions

    def _operand(self, node: ast.expr) -> Operand:
        return self._as_operand(self._evaluate(node), node)

    def _as_operand(self, value: Any, node: ast.AST) -> Operand:
        if isinstance(value, Value | Constant):
            return value
        if isinstance(value, bool | np.bool_):
            return Constant(bool(value), Scalar.BOOL)
        if isinstance(value, np.generic):
            type = scalar_of(value.dtype)
            if type is not None:
                return Constant(value.item(), type)
        if isinstance(value, int):
            return Constant(value, Scalar.I64)
        if isinstance(value, float):
            return Constant(value, Scalar.F64)
        raise self._refuse(node, f"a {type_name(value)} as a number")

    def _truth(self, node: ast.expr) -> Operand:
        return self.builder.cast(self._operand(node), Scalar.BOOL)

    def _evaluate(self, node: ast.expr) -> Any:
        """What an expression is: a value, an array, a tuple, or what Python has by that name."""
        if hasattr(node, "lineno"):
            self.builder.at = self._at(node)
        match node:
            case ast.Constant(value=value):
                return value if isinstance(value, str) else self._as_operand(value, node)
            case ast.Name(id=name):
                return self._named_value(node, name)
            case ast.Attribute(value=value, attr=attribute):
                return self._attribute(node, self._evaluate(value), attribute)
            case ast.Tuple(elts=elements):
                return tuple(self._evaluate(each) for each in elements)
            case ast.Subscript():
                return self._subscripted(node)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._arithmetic(node, operator, self._operand(left), self._operand(right))
            case ast.UnaryOp(op=operator, operand=operand):
                return self._unary_value(node, operator, self._operand(operand))
            case ast.BoolOp(op=operator, values=values):
                return self._logical(isinstance(operator, ast.And), values)
            case ast.Compare(left=left, ops=operators, comparators=others):
                return self._compared(node, left, operators, others)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._chosen_value(test, body, orelse)
            case ast.Call():
                return self._call_value(node)
        raise self._refuse(node, f"a {type(node).__name__.lower()} expression")

    def _named_value(self, node: ast.expr, name: str) -> Any:
        if name in self._names:
            place = self._names[name]
            return self._variable_value(place) if isinstance(place, Held) else place
        if name in self._globals:
            return self._globals[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        if any(name == each.rpartition(".")[2] for each in self._known) or self._stores(name):
            return _FALSE  # assigned in a branch that was not translated yet
        raise self._refuse(node, f"the name {name}")

    def _stores(self, name: str) -> bool:
        return any(
            isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
            for each in ast.walk(self._tree)
        )

    def _attribute(self, node: ast.expr, owner: Any, name: str) -> Any:
        if isinstance(owner, _Array):
            match name:
                case "shape":
                    return owner.shape
                case "ndim":
                    return Constant(len(owner.shape), Scalar.I64)
                case "size":
                    return self._product(owner.shape)
            raise self._refuse(node, f"the attribute {name} of an array")
        path = _cuda_path(owner)
        if path is not None:
            full = f"{path}.{name}".lstrip(".")
            kind, _, axis = full.rpartition(".")
            index = {"threadIdx": "thread", "blockIdx": "block", "blockDim": "block.dim",
                     "gridDim": "grid.dim"}.get(kind)  # fmt: skip
            if index is not None:
                return self._index_value(f"{index}.{axis}")
            return _Attribute(full)
        if isinstance(owner, ModuleType) or not isinstance(owner, Value | Constant):
            try:
                return getattr(owner, name)
            except AttributeError:
                raise self._refuse(node, f"the attribute {name}") from None
        raise self._refuse(node, f"the attribute {name} of a number")

    def _index_value(self, name: str) -> Operand:
        value = self.builder.cast(self.builder.index(name), Scalar.I64)
        self._natural.add(value)
        return value

    def _product(self, several: Sequence[Operand]) -> Operand:
        total: Operand = Constant(1, Scalar.I64)
        for each in several:
            total = self.builder.compute("mul", Scalar.I64, total, each)
        self._natural.add(total)
        return total

    def _subscripted(self, node: ast.Subscript) -> Any:
        owner = self._evaluate(node.value)
        if isinstance(owner, tuple):
            index = self._operand(node.slice)
            if not isinstance(index, Constant):
                raise self._refuse(node, "an index into a tuple that is no constant")
            return owner[int(index.value)]
        address, element = self._element(node)
        result = self.builder.value(element)
        self.builder.write(Load(result, address, self._at(node)))
        return result

    def _element(self, node: ast.Subscript) -> tuple[Address, Scalar]:
        """The address of an element of an array, and its type."""
        owner = self._evaluate(node.value)
        if not isinstance(owner, _Array):
            raise self._refuse(node, "an index into what is no array")
        given = self._evaluate(node.slice) if not isinstance(node.slice, ast.Slice) else None
        if given is None:
            raise self._refuse(node, "a slice")
        several = given if isinstance(given, tuple) else (given,)
        return self._located(node, owner, [self._as_operand(each, node) for each in several])

    def _located(
        self, node: ast.AST, array: _Array, indices: Sequence[Operand]
    ) -> tuple[Address, Scalar]:
        if len(indices) != len(array.shape):
            raise self._refuse(node, f"{len(indices)} indices into {len(array.shape)} dimensions")
        builder = self.builder
        total: Operand = Constant(0, Scalar.I64)
        for index, size in zip(indices, array.shape, strict=True):
            wide = builder.cast(index, Scalar.I64)
            if not (index in self._natural or wide in self._natural or _is_natural(wide)):
                # A negative index counts from the end, as in Python.
                behind = builder.compute("add", Scalar.I64, wide, size)
                negative = builder.compare("lt", wide, Constant(0, Scalar.I64))
                wide = builder.compute("select", Scalar.I64, negative, behind, wide)
            total = builder.compute("mul", Scalar.I64, total, size)
            total = builder.compute("add", Scalar.I64, total, wide)
        self.builder.at = self._at(node)
        return builder.element(Address(array.base), total, array.element.size), array.element

    def _arithmetic(
        self, node: ast.expr, operator: ast.operator, one: Operand, other: Operand
    ) -> Operand:
        builder = self.builder
        type = computed(one.type, other.type)
        if isinstance(operator, ast.Div):
            type = type if type.is_float else Scalar.F64
        if isinstance(operator, ast.Pow) and not type.is_float:
            return self._integer_power(node, one, other, type)
        a, b = builder.cast(one, type), builder.cast(other, type)
        natural = all(each in self._natural or _is_natural(each) for each in (one, other))
        match operator:
            case ast.Div():
                return builder.compute("div", type, a, b)
            case ast.Pow():
                return builder.compute("pow", type, a, b)
            case ast.FloorDiv() | ast.Mod():
                result = self._floored(isinstance(operator, ast.Mod), type, a, b, natural)
            case _:
                name = _OPERATORS.get(operator.__class__)
                if name is None:
                    raise self._refuse(node, f"the operator {operator.__class__.__name__}")
                result = builder.compute(name, type, a, b)
        if natural and not isinstance(operator, ast.Sub) and not type.is_float:
            self._natural.add(result)
        return result

    def _floored(
        self, remainder: bool, type: Scalar, one: Operand, other: Operand, natural: bool
    ) -> Operand:
        """Python's quotient and remainder, which go downwards."""
        builder, zero = self.builder, Constant(0, type)
        if type.is_float:
            quotient = builder.compute("floor", type, builder.compute("div", type, one, other))
            if not remainder:
                return quotient
            return builder.compute("sub", type, one, builder.compute("mul", type, quotient, other))
        rest = builder.compute("rem", type, one, other)
        quotient = builder.compute("div", type, one, other)
        if natural or not type.is_signed:
            return rest if remainder else quotient
        crooked = builder.compute(
            "and",
            Scalar.BOOL,
            builder.compare("ne", rest, zero),
            builder.compare(
                "ne", builder.compare("lt", rest, zero), builder.compare("lt", other, zero)
            ),
        )
        if remainder:
            more = builder.compute("add", type, rest, other)
            return builder.compute("select", type, crooked, more, rest)
        less = builder.compute("sub", type, quotient, Constant(1, type))
        return builder.compute("select", type, crooked, less, quotient)

    def _integer_power(self, node: ast.expr, one: Operand, other: Operand, type: Scalar) -> Operand:
        if not isinstance(other, Constant) or not 0 <= other.value <= 64:
            raise self._refuse(node, "a power of whole numbers that is no small constant")
        result: Operand = Constant(1, type)
        for _ in range(int(other.value)):
            result = self.builder.compute("mul", type, result, self.builder.cast(one, type))
        return result

    def _unary_value(self, node: ast.expr, operator: ast.unaryop, value: Operand) -> Operand:
        builder = self.builder
        match operator:
            case ast.Not():
                return builder.negated(builder.cast(value, Scalar.BOOL))
            case ast.UAdd():
                return value
            case ast.USub():
                type = computed(value.type, value.type)
                return builder.compute("neg", type, builder.cast(value, type))
            case _:
                type = computed(value.type, value.type)
                return builder.compute("not", type, builder.cast(value, type))

    def _logical(self, is_and: bool, values: Sequence[ast.expr]) -> Operand:
        result = self._truth(values[0])
        for node in values[1:]:
            key = self.new_key((Constant(not is_and, Scalar.BOOL),))

            def evaluate(node: ast.expr = node, key: int = key) -> None:
                self.environment[key] = (self._truth(node),)

            test = result if is_and else self.builder.negated(result)
            self.branch(test, evaluate, lambda: None)
            (result,) = self.environment[key]
        return result

    def _compared(
        self,
        node: ast.expr,
        left: ast.expr,
        operators: Sequence[ast.cmpop],
        others: Sequence[ast.expr],
    ) -> Operand:
        builder, result, one = self.builder, _TRUE, self._operand(left)
        combined: Operand = result
        for operator, following in zip(operators, others, strict=True):
            other = self._operand(following)
            name = _COMPARISONS.get(operator.__class__)
            if name is None:
                raise self._refuse(node, f"the comparison {operator.__class__.__name__}")
            type = promoted(one.type, other.type)
            holds = builder.compare(name, builder.cast(one, type), builder.cast(other, type))
            combined = builder.compute("and", Scalar.BOOL, combined, holds)
            one = other
        return combined

    def _chosen_value(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Operand:
        key = self.new_key((_FALSE,))
        both = f"{self._scope}.choice{test.lineno}.{test.col_offset}"

        def choose(node: ast.expr) -> Callable[[], None]:
            def evaluate() -> None:
                value = self._operand(node)
                self.found[both] = promoted(self.found.get(both, value.type), value.type)
                wanted = self._known.get(both, value.type)
                self.environment[key] = (self.builder.cast(value, wanted),)

            return evaluate

        condition = self._truth(test)
        if both in self._known:
            self.environment[key] = (Constant(0, self._known[both]),)
            self.branch(condition, choose(body), choose(orelse))
            return self.environment[key][0]
        choose(orelse)()  # the first pass only finds the type
        choose(body)()
        return self.environment[key][0]

    # --- calls

    def _call_value(self, node: ast.Call) -> Any:
        callee = self._evaluate(node.func)
        path = callee.path if isinstance(callee, _Attribute) else _cuda_path(callee)
        if path:
            return self._cuda_call(node, path)
        if getattr(callee, "__module__", None) == "math" or callee in (abs, min, max):
            return self._math_call(node, callee.__name__)
        if callee is len:
            array = self._evaluate(node.args[0])
            if isinstance(array, _Array):
                return array.shape[0]
        if callee in (int, float, bool) or scalar_of(callee) is not None:
            type = scalar_of(callee)
            assert type is not None
            value = self._operand(node.args[0])
            result = self.builder.cast(value, type)
            if value in self._natural:
                self._natural.add(result)
            return result
        function = getattr(callee, "device_function", callee)
        if isinstance(function, FunctionType):
            return self._device_call(node, function)
        if isinstance(callee, np.ufunc):
            return self._math_call(node, callee.__name__)
        raise self._refuse(node, f"a call of {ast.unparse(node.func)}")

    def _math_call(self, node: ast.Call, name: str) -> Operand:
        builder = self.builder
        values = [self._operand(each) for each in node.args]
        if name in ("min", "max", "fmin", "fmax", "minimum", "maximum"):
            result = values[0]
            for other in values[1:]:
                type = promoted(result.type, other.type)
                short = "min" if "min" in name else "max"
                result = builder.compute(
                    short, type, builder.cast(result, type), builder.cast(other, type)
                )
            return result
        if name in ("abs", "absolute", "fabs"):
            return builder.compute("abs", values[0].type, values[0])
        if name in ("isnan", "isinf", "isfinite"):
            return builder.compute(name, Scalar.BOOL, self._floating(values[0]))
        if name in ("pow", "atan2", "hypot", "fmod", "copysign", "arctan2", "power"):
            short = {"fmod": "rem", "arctan2": "atan2", "power": "pow"}.get(name, name)
            one, other = (self._floating(each) for each in values)
            type = promoted(one.type, other.type)
            return builder.compute(short, type, builder.cast(one, type), builder.cast(other, type))
        short = _MATH.get(name.replace("arc", "a"), "")
        if not short:
            raise self._refuse(node, f"the function {name}")
        value = self._floating(values[0])
        result = builder.compute(short, value.type, value)
        if name in ("floor", "ceil", "trunc") and isinstance(node.func, ast.Attribute):
            module = self._evaluate(node.func.value)
            if module is math:
                return builder.cast(result, Scalar.I64)
        return result

    def _floating(self, value: Operand) -> Operand:
        return value if value.type.is_float else self.builder.cast(value, Scalar.F64)

    def _device_call(self, node: ast.Call, function: FunctionType) -> Any:
        """Inlines a device function."""
        name = function.__name__
        if any(frame.name == name for frame in self._frames):
            raise self._refuse(node, f"the recursion of {name}")
        arguments = [self._evaluate(each) for each in node.args]
        outer = (
            self._names, self._scope, self._globals, self._line, self._file, self._tree,
            self._loops,
        )  # fmt: skip
        self._names, self._loops, self._scope = {}, [], name
        self._tree = self._enter_source(function)
        self._frames.append(_Frame(name, self.new_key((_FALSE,)), None))
        for parameter, argument in zip(self._tree.args.args, arguments, strict=True):
            if isinstance(argument, _Array | tuple):
                self._names[parameter.arg] = argument
            else:
                self._assign(parameter.arg, self._as_operand(argument, node))
        self._declare(self._tree)
        result_type = self._known.get(f"{name}.return")
        if result_type is not None:
            self._names["return"] = self.held(None, (Constant(0, result_type),))
        self.statements(self._tree.body)
        place = self._names.get("return")
        result = self._variable_value(place) if isinstance(place, Held) else _FALSE
        self._frames.pop()
        (
            self._names, self._scope, self._globals, self._line, self._file, self._tree,
            self._loops,
        ) = outer  # fmt: skip
        return result

    def _cuda_call(self, node: ast.Call, path: str) -> Any:
        builder = self.builder
        group, _, name = path.rpartition(".")
        if path in ("grid", "gridsize"):
            return self._grid(node, path)
        if path in ("syncthreads", "syncwarp"):
            level = "block" if path == "syncthreads" else "warp"
            builder.write(Barrier(level=level, at=builder.at))
            return None
        if path in ("threadfence", "threadfence_block", "threadfence_system"):
            return None
        if name == "array" and group in ("shared", "local"):
            return self._array(node, group)
        if group == "atomic":
            return self._atomic(node, name)
        if name in _SHUFFLES:
            value, lane = (self._operand(each) for each in node.args[1:3])
            result = builder.value(value.type)
            whole = Constant(32, Scalar.I32)
            operands = (value, builder.cast(lane, Scalar.I32), whole)
            builder.write(Warp(result, f"shfl.{_SHUFFLES[name]}", operands, builder.at))
            return result
        if name in _VOTES:
            condition = self._truth(node.args[1])
            result = builder.value(Scalar.U32 if name == "ballot_sync" else Scalar.I32)
            builder.write(Warp(result, _VOTES[name], (condition,), builder.at))
            return result
        if name in ("popc", "clz", "ffs", "brev"):
            value = self._operand(node.args[0])
            return builder.compute(name, value.type, value)
        if name == "fma":
            values = [self._floating(self._operand(each)) for each in node.args]
            type = values[0].type
            return builder.compute("fma", type, *(builder.cast(each, type) for each in values))
        raise self._refuse(node, f"cuda.{path}")

    def _grid(self, node: ast.Call, path: str) -> Any:
        dimensions = self._operand(node.args[0])
        if not isinstance(dimensions, Constant) or dimensions.value not in (1, 2, 3):
            raise self._refuse(node, f"cuda.{path} of this")
        values = []
        for axis in "xyz"[: int(dimensions.value)]:
            if path == "grid":
                start = self.builder.compute(
                    "mul",
                    Scalar.U32,
                    self.builder.index(f"block.{axis}"),
                    self.builder.index(f"block.dim.{axis}"),
                )
                place = self.builder.compute(
                    "add", Scalar.U32, start, self.builder.index(f"thread.{axis}")
                )
            else:
                place = self.builder.compute(
                    "mul",
                    Scalar.U32,
                    self.builder.index(f"grid.dim.{axis}"),
                    self.builder.index(f"block.dim.{axis}"),
                )
            wide = self.builder.cast(place, Scalar.I64)
            self._natural.add(wide)
            values.append(wide)
        return values[0] if len(values) == 1 else tuple(values)

    def _array(self, node: ast.Call, group: str) -> _Array:
        given = {each.arg: each.value for each in node.keywords}
        listed = [*node.args, *(given[each] for each in ("shape", "dtype") if each in given)]
        if len(listed) != 2:
            raise self._refuse(node, f"cuda.{group}.array without a shape and a type")
        shape = self._evaluate(listed[0])
        element = scalar_of(self._evaluate(listed[1]))
        several = shape if isinstance(shape, tuple) else (shape,)
        sizes = [self._as_operand(each, node) for each in several]
        if element is None or not all(isinstance(each, Constant) for each in sizes):
            raise self._refuse(node, f"cuda.{group}.array whose shape or type is no constant")
        total = math.prod(int(each.value) for each in sizes if isinstance(each, Constant))
        space = Space.SHARED if group == "shared" else Space.PRIVATE
        size = total * element.size if total or group == "local" else None
        base = self.builder.alloc(space, size, element, group)
        wide = tuple(self.builder.cast(each, Scalar.I64) for each in sizes)
        return _Array(base, element, wide)

    def _atomic(self, node: ast.Call, name: str) -> Operand:
        builder = self.builder
        array = self._evaluate(node.args[0])
        if not isinstance(array, _Array):
            raise self._refuse(node, f"cuda.atomic.{name} on what is no array")
        if name in ("compare_and_swap", "cas"):
            indices: Any = (Constant(0, Scalar.I64),) if name != "cas" else None
            indices = indices or self._evaluate(node.args[1])
            old, new = (self._operand(each) for each in node.args[-2:])
        elif name in _ATOMICS:
            indices, old = self._evaluate(node.args[1]), None
            new = self._operand(node.args[2])
        else:
            raise self._refuse(node, f"cuda.atomic.{name}")
        several = indices if isinstance(indices, tuple) else (indices,)
        address, element = self._located(
            node, array, [self._as_operand(each, node) for each in several]
        )
        result = builder.value(element)
        value = builder.cast(new, element)
        compare = None if old is None else builder.cast(old, element)
        kind = "cas" if old is not None else _ATOMICS[name]
        builder.write(Atomic(result, kind, moved(address, 0), value, compare, builder.at))
        return result


class _Begin(ast.stmt):
    """A statement that the translation puts before those of a loop's body."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__()
        self.action = action


def type_name(value: Any) -> str:
    return type(value).__name__


def _is_natural(value: Operand) -> bool:
    return isinstance(value, Constant) and value.value >= 0


def _jumps(node: ast.AST, *, in_loop: bool = False) -> set[str]:
    """Which of `return`, `break` and `continue` may leave a statement."""
    match node:
        case ast.Return():
            return {"return"}
        case ast.Break():
            return set() if in_loop else {"break"}
        case ast.Continue():
            return set() if in_loop else {"continue"}
    loop = in_loop or isinstance(node, ast.For | ast.While)
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        found |= _jumps(child, in_loop=loop)
    return found


def _reading(target: ast.expr) -> ast.expr:
    """The target of an assignment as an expression that reads it."""
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Subscript(value=value, slice=index):
            return ast.copy_location(ast.Subscript(value, index, ast.Load()), target)
        case _:
            return target


def _cuda_path(value: Any) -> str | None:
    """The path of an object below `cuda`: "" for the module, "atomic.add" for that function."""
    if isinstance(value, _Attribute):
        return value.path
    path = getattr(value, "cuda_path", None)
    if isinstance(path, str):
        return path
    if isinstance(value, ModuleType) and value.__name__ in ("numba.cuda", "cuda"):
        return ""
    return None
