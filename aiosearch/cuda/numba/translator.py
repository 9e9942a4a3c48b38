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
import textwrap
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..errors import SourceError, UnsupportedConstruct
from ..frontend.cursors import Held
from ..frontend.translator import _Frame, _Loop
from ..ir.builder import block
from ..ir.operations import (
    Address,
    CallOperation,
    ConstantOperand,
    IrValue,
    Load,
    Operand,
    ParallelFunction,
    Parameter,
    SourceLocation,
    Store,
)
from ..ir.types import ScalarType
from ..passes.rewriter import substituted
from .argument_types import (
    ArrayArgument,
    ArrayVariable,
    Attribute,
    KernelArray,
    Signature,
    computed,
    promoted,
    scalar_of,
)
from .calls import Calls, Value, cuda_path, is_natural, type_name

_FALSE, _TRUE = ConstantOperand(False, ScalarType.BOOL), ConstantOperand(True, ScalarType.BOOL)
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or",
    ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
_COMPARISONS = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip


def translate(function: Value, types: Sequence[ScalarType | ArrayArgument]) -> ParallelFunction:
    """The kernel that a function is for arguments of these types."""
    existing: dict[str, ScalarType] = {}
    arrays: dict[str, ArrayArgument] = {}
    while True:
        translator = _Python(function, existing, arrays)
        kernel = translator.kernel(types)
        if (translator.found, translator.arrays) == (existing, arrays):
            return kernel
        existing, arrays = translator.found, translator.arrays


class _Python(Calls):
    def __init__(
        self,
        function: Value,
        existing: dict[str, ScalarType],
        arrays: dict[str, ArrayArgument],
    ) -> None:
        super().__init__()
        self.arrays = dict(arrays)
        """The types of the names that arrays are assigned to."""
        self.found: dict[str, ScalarType] = dict(existing)
        """The types of variables, by function and name."""
        self._known = existing
        self._names: dict[str, Value] = {}
        self._scope = function.__name__
        self._globals: dict[str, Value] = {}
        self._line = 0
        self._file = ""
        self._tree = self._enter_source(function)

    def _enter_source(self, function: Value) -> ast.FunctionDef:
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

    def _at(self, node: ast.AST) -> SourceLocation:
        """Where a node stands; what has no place of its own is where the last one was."""
        if not hasattr(node, "lineno"):
            return self.builder.at
        return SourceLocation(self._file, self._line + node.lineno - 1)

    def _refuse(self, node: ast.AST, construct: str) -> UnsupportedConstruct:
        return UnsupportedConstruct(construct, self._at(node))

    def kernel(self, types: Sequence[ScalarType | ArrayArgument]) -> ParallelFunction:
        """Translates the function as a kernel."""
        tree, parameters = self._tree, list[Parameter]()
        names = [entry.arg for entry in tree.args.args]
        if len(names) != len(types):
            raise SourceError(f"{tree.name} takes {len(names)} arguments, not {len(types)}")
        self._waits = any(
            isinstance(entry, ast.Attribute) and entry.attr == "syncthreads"
            for entry in ast.walk(tree)
        )
        self._frames.append(_Frame(tree.name, self.new_key((_FALSE,)), None))
        for name, type in zip(names, types, strict=True):
            parameters += self._argument(name, type)
        self._declare(tree)
        self.statements(tree.body)
        lines = [*self.builder.prologue, *self.builder.lines]
        whole = substituted(block(lines), self._kept)
        at = SourceLocation(self._file, self._line)
        return ParallelFunction(tree.name, tuple(parameters), whole, (), True, at)

    def _argument(self, name: str, type: ScalarType | ArrayArgument) -> list[Parameter]:
        if isinstance(type, ScalarType):
            value = self.builder.value(type, name)
            self._assign(name, value)
            return [Parameter(value, name)]
        base = self.builder.value(ScalarType.PTR, name)
        sizes = [self.builder.value(ScalarType.I64, f"{name}.size") for _ in range(type.dimensions)]
        self._natural.update(sizes)
        self._bind_array(name, KernelArray(base, type.element, tuple(sizes)))
        listed = [Parameter(base, name, type.element, False, type.element.size)]
        return [*listed, *(Parameter(size, f"{name}.shape") for size in sizes)]

    def _declare(self, tree: ast.FunctionDef) -> None:
        """Begins every variable whose type is known, so that branches may assign it first."""
        unset = ConstantOperand(0, ScalarType.PTR)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                label = f"{self._scope}.{node.id}"
                type, array = self._known.get(label), self.arrays.get(label)
                if node.id in self._names:
                    continue
                if type is not None:
                    self._names[node.id] = self.held(None, (ConstantOperand(0, type),))
                elif array is not None:
                    sizes = (ConstantOperand(0, ScalarType.I64),) * array.dimensions
                    nothing = KernelArray(unset, array.element, sizes)
                    self._names[node.id] = self._array_variable(nothing)

    # --- variables

    def _assign(self, name: str, value: Operand) -> None:
        label = f"{self._scope}.{name}"
        before = self.found.get(label, value.type)
        self.found[label] = promoted(before, value.type)
        if label in self.arrays:
            raise UnsupportedConstruct(f"{name} for a number and for an array", self.builder.at)
        retained = self._known.get(label, value.type)
        cast = self.builder.cast(value, retained)
        if value in self._natural:
            self._natural.add(cast)
        place = self._names.get(name)
        if not isinstance(place, Held):
            self._names[name] = self.held(None, (cast,))
        else:
            self.environment[place.key] = (cast,)

    def _bind_array(self, name: str, array: KernelArray) -> None:
        """Has a parameter be an array; what the function assigns to it later is another one."""
        stored = self._stores(name)
        self._names[name] = self._array_variable(array) if stored else array

    def _assign_array(self, node: ast.AST, name: str, array: KernelArray) -> None:
        label = f"{self._scope}.{name}"
        type = ArrayArgument(array.element, len(array.shape))
        if self.arrays.setdefault(label, type) != type or label in self.found:
            raise self._refuse(node, f"{name} for values of different types, one an array,")
        place = self._names.get(name)
        if isinstance(place, ArrayVariable):
            self.environment[place.place.key] = (array.base, *array.shape)
        else:
            self._names[name] = self._array_variable(array)

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
            self.builder.write(CallOperation("exit", (), at=self.builder.at))

    def _store(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(id=name) if isinstance(value, KernelArray):
                self._assign_array(target, name, value)
            case ast.Name(id=name):
                self._assign(name, self._as_operand(value, target))
            case ast.Tuple(elts=elements) if isinstance(value, tuple):
                for entry, head_value in zip(elements, value, strict=True):
                    self._store(entry, head_value)
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
                    place = place.place if isinstance(place, ArrayVariable) else place
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
        bounds = [self.builder.cast(self._operand(entry), ScalarType.I64) for entry in call.args]
        if len(bounds) == 1:
            bounds.insert(0, ConstantOperand(0, ScalarType.I64))
        step = bounds[2] if len(bounds) > 2 else ConstantOperand(1, ScalarType.I64)
        low, high = bounds[:2]
        if not isinstance(step, ConstantOperand):
            self._strided(node, name, (low, high, step), body)
            return
        assigned = {
            entry.id
            for statement in body
            for entry in ast.walk(statement)
            if isinstance(entry, ast.Name) and isinstance(entry.ctx, ast.Store)
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
        counter = self.builder.value(ScalarType.I64, name)
        if step.value > 0 and (low in self._natural or is_natural(low)):
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
        upwards = builder.compare("gt", step, ConstantOperand(0, ScalarType.I64))

        def test() -> Operand:
            (place,) = self.environment[hidden.key]
            below, above = builder.compare("lt", place, high), builder.compare("gt", place, high)
            return builder.compute("select", ScalarType.BOOL, upwards, below, above)

        def advance() -> None:
            (place,) = self.environment[hidden.key]
            after = builder.compute("add", ScalarType.I64, place, step)
            self.environment[hidden.key] = (after,)

        self._assign(name, low)
        bound = self._names[name]
        assert isinstance(bound, Held)
        begin = _Begin(lambda: self._assign(name, self.environment[hidden.key][0]))
        self._while_loop(test, node, [begin, *body], advance, (hidden.key, bound.key))

    # --- expressions

    def _operand(self, node: ast.expr) -> Operand:
        return self._as_operand(self._evaluate(node), node)

    def _as_operand(self, value: Value, node: ast.AST) -> Operand:
        if isinstance(value, IrValue | ConstantOperand):
            return value
        if isinstance(value, bool | np.bool_):
            return ConstantOperand(bool(value), ScalarType.BOOL)
        if isinstance(value, np.generic):
            type = scalar_of(value.dtype)
            if type is not None:
                return ConstantOperand(value.item(), type)
        if isinstance(value, int):
            return ConstantOperand(value, ScalarType.I64)
        if isinstance(value, float):
            return ConstantOperand(value, ScalarType.F64)
        raise self._refuse(node, f"a {type_name(value)} as a number")

    def _truth(self, node: ast.expr) -> Operand:
        return self.builder.cast(self._operand(node), ScalarType.BOOL)

    def _evaluate(self, node: ast.expr) -> Value:
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
                return tuple(self._evaluate(entry) for entry in elements)
            case ast.Subscript():
                return self._subscripted(node)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._arithmetic(node, operator, self._operand(left), self._operand(right))
            case ast.UnaryOp(op=operator, operand=operand):
                return self._unary_value(node, operator, self._operand(operand))
            case ast.BoolOp(op=operator, values=values):
                return self._logical(isinstance(operator, ast.And), values)
            case ast.Compare(left=left, ops=operators, comparators=remaining_values):
                return self._compared(node, left, operators, remaining_values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._chosen_value(test, body, orelse)
            case ast.Call():
                return self._call_value(node)
        raise self._refuse(node, f"a {type(node).__name__.lower()} expression")

    def _named_value(self, node: ast.expr, name: str) -> Value:
        if name in self._names:
            place = self._names[name]
            if isinstance(place, ArrayVariable):
                return self._held_array(place)
            return self._variable_value(place) if isinstance(place, Held) else place
        if name in self._globals:
            return self._globals[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        if any(name == entry.rpartition(".")[2] for entry in self._known) or self._stores(name):
            return _FALSE  # assigned in a branch that was not translated yet
        raise self._refuse(node, f"the name {name}")

    def _stores(self, name: str) -> bool:
        return any(
            isinstance(entry, ast.Name) and entry.id == name and isinstance(entry.ctx, ast.Store)
            for entry in ast.walk(self._tree)
        )

    def _attribute(self, node: ast.expr, owner: Value, name: str) -> Value:
        if isinstance(owner, KernelArray):
            match name:
                case "shape":
                    return owner.shape
                case "ndim":
                    return ConstantOperand(len(owner.shape), ScalarType.I64)
                case "size":
                    return self._product(owner.shape)
            raise self._refuse(node, f"the attribute {name} of an array")
        path = cuda_path(owner)
        if path is not None:
            full = f"{path}.{name}".lstrip(".")
            if full in ("laneid", "warpsize"):
                return self._lane(full)
            kind, _, axis = full.rpartition(".")
            index = {"threadIdx": "thread", "blockIdx": "block", "blockDim": "block.dim",
                     "gridDim": "grid.dim"}.get(kind)  # fmt: skip
            if index is not None:
                return self._index_value(f"{index}.{axis}")
            return Attribute(full)
        if isinstance(owner, ModuleType) or not isinstance(owner, IrValue | ConstantOperand):
            try:
                return getattr(owner, name)
            except AttributeError:
                raise self._refuse(node, f"the attribute {name}") from None
        raise self._refuse(node, f"the attribute {name} of a number")

    def _index_value(self, name: str) -> Operand:
        value = self.builder.cast(self.builder.index(name), ScalarType.I64)
        self._natural.add(value)
        return value

    def _product(self, several: Sequence[Operand]) -> Operand:
        total: Operand = ConstantOperand(1, ScalarType.I64)
        for entry in several:
            total = self.builder.compute("mul", ScalarType.I64, total, entry)
        self._natural.add(total)
        return total

    def _subscripted(self, node: ast.Subscript) -> Value:
        owner = self._evaluate(node.value)
        if isinstance(owner, tuple):
            index = self._operand(node.slice)
            if not isinstance(index, ConstantOperand):
                raise self._refuse(node, "an index into a tuple that is no constant")
            return owner[int(index.value)]
        array, indices = self._indexed(node, owner)
        if len(indices) < len(array.shape):
            return self._row(node, array, indices)
        address, element = self._located(node, array, indices)
        result = self.builder.value(element)
        self.builder.write(Load(result, address, self._at(node)))
        return result

    def _element(self, node: ast.Subscript) -> tuple[Address, ScalarType]:
        """The address of an element of an array, and its type."""
        return self._located(node, *self._indexed(node, self._evaluate(node.value)))

    def _indexed(self, node: ast.Subscript, owner: Value) -> tuple[KernelArray, list[Operand]]:
        """An array and the indices into it; `a[i, :]` has only those before its colons."""
        if not isinstance(owner, KernelArray):
            raise self._refuse(node, "an index into what is no array")
        supplied = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        while len(supplied) > 1 and ast.unparse(supplied[-1]) == ":":
            supplied = supplied[:-1]
        if any(isinstance(entry, ast.Slice) for entry in supplied):
            raise self._refuse(node, "a slice")
        several: list[Value] = []
        for entry in supplied:
            value = self._evaluate(entry)
            several += value if isinstance(value, tuple) else (value,)
        return owner, [self._as_operand(entry, node) for entry in several]

    def _arithmetic(
        self, node: ast.expr, operator: ast.operator, head_value: Operand, second: Operand
    ) -> Operand:
        builder = self.builder
        type = computed(head_value.type, second.type)
        if isinstance(operator, ast.Div):
            type = type if type.is_float else ScalarType.F64
        if isinstance(operator, ast.Pow) and not type.is_float:
            return self._integer_power(node, head_value, second, type)
        a, b = builder.cast(head_value, type), builder.cast(second, type)
        natural = all(entry in self._natural or is_natural(entry) for entry in (head_value, second))
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
        self, remainder: bool, type: ScalarType, head_value: Operand, second: Operand, natural: bool
    ) -> Operand:
        """Python's quotient and remainder, which go downwards."""
        builder, zero = self.builder, ConstantOperand(0, type)
        if type.is_float:
            quotient = builder.compute(
                "floor", type, builder.compute("div", type, head_value, second)
            )
            if not remainder:
                return quotient
            return builder.compute(
                "sub", type, head_value, builder.compute("mul", type, quotient, second)
            )
        remaining = builder.compute("rem", type, head_value, second)
        quotient = builder.compute("div", type, head_value, second)
        if natural or not type.is_signed:
            return remaining if remainder else quotient
        crooked = builder.compute(
            "and",
            ScalarType.BOOL,
            builder.compare("ne", remaining, zero),
            builder.compare(
                "ne", builder.compare("lt", remaining, zero), builder.compare("lt", second, zero)
            ),
        )
        if remainder:
            further = builder.compute("add", type, remaining, second)
            return builder.compute("select", type, crooked, further, remaining)
        less = builder.compute("sub", type, quotient, ConstantOperand(1, type))
        return builder.compute("select", type, crooked, less, quotient)

    def _integer_power(
        self, node: ast.expr, head_value: Operand, second: Operand, type: ScalarType
    ) -> Operand:
        if not isinstance(second, ConstantOperand) or not 0 <= second.value <= 64:
            raise self._refuse(node, "a power of whole numbers that is no small constant")
        result: Operand = ConstantOperand(1, type)
        for _ in range(int(second.value)):
            result = self.builder.compute("mul", type, result, self.builder.cast(head_value, type))
        return result

    def _unary_value(self, node: ast.expr, operator: ast.unaryop, value: Operand) -> Operand:
        builder = self.builder
        match operator:
            case ast.Not():
                return builder.negated(builder.cast(value, ScalarType.BOOL))
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
            key = self.new_key((ConstantOperand(not is_and, ScalarType.BOOL),))

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
        remaining_values: Sequence[ast.expr],
    ) -> Operand:
        builder, result, head_value = self.builder, _TRUE, self._operand(left)
        combined: Operand = result
        for operator, following in zip(operators, remaining_values, strict=True):
            second = self._operand(following)
            name = _COMPARISONS.get(operator.__class__)
            if name is None:
                raise self._refuse(node, f"the comparison {operator.__class__.__name__}")
            type = promoted(head_value.type, second.type)
            holds = builder.compare(
                name, builder.cast(head_value, type), builder.cast(second, type)
            )
            combined = builder.compute("and", ScalarType.BOOL, combined, holds)
            head_value = second
        return combined

    def _chosen_value(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Operand:
        key = self.new_key((_FALSE,))
        both = f"{self._scope}.choice{test.lineno}.{test.col_offset}"

        def choose(node: ast.expr) -> Callable[[], None]:
            def evaluate() -> None:
                value = self._operand(node)
                self.found[both] = promoted(self.found.get(both, value.type), value.type)
                required = self._known.get(both, value.type)
                self.environment[key] = (self.builder.cast(value, required),)

            return evaluate

        condition = self._truth(test)
        if both in self._known:
            self.environment[key] = (ConstantOperand(0, self._known[both]),)
            self.branch(condition, choose(body), choose(orelse))
            return self.environment[key][0]
        choose(orelse)()  # the first pass only finds the type
        choose(body)()
        return self.environment[key][0]

    # --- calls

    def _call_value(self, node: ast.Call) -> Value:
        try:
            return self._call_by_kind(node)
        except (IndexError, ValueError):  # of taking apart what it is called with
            raise self._refuse(node, ast.unparse(node)) from None

    def _call_by_kind(self, node: ast.Call) -> Value:
        callee = self._evaluate(node.func)
        path = callee.path if isinstance(callee, Attribute) else cuda_path(callee)
        if path:
            return self._cuda_call(node, path)
        if getattr(callee, "__module__", None) == "math" or callee in (abs, min, max):
            return self._math_call(node, callee.__name__)
        if callee is len:
            array = self._evaluate(node.args[0])
            if isinstance(array, KernelArray):
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
            signature = getattr(callee, "device_signature", None)
            return self._device_call(node, function, signature)
        if isinstance(callee, np.ufunc):
            return self._math_call(node, callee.__name__)
        raise self._refuse(node, f"a call of {ast.unparse(node.func)}")

    def _device_call(
        self, node: ast.Call, function: FunctionType, signature: Signature | None
    ) -> Value:
        """Inlines a device function."""
        name = function.__name__
        if any(frame.name == name for frame in self._frames):
            raise self._refuse(node, f"the recursion of {name}")
        arguments = [self._evaluate(entry) for entry in node.args]
        if signature is not None:
            arguments = self._converted(node, arguments, signature.parameters)
        outer = (
            self._names, self._scope, self._globals, self._line, self._file, self._tree,
            self._loops,
        )  # fmt: skip
        self._names, self._loops, self._scope = {}, [], name
        self._tree = self._enter_source(function)
        self._frames.append(_Frame(name, self.new_key((_FALSE,)), None))
        for parameter, argument in zip(self._tree.args.args, arguments, strict=True):
            if isinstance(argument, KernelArray):
                self._bind_array(parameter.arg, argument)
            elif isinstance(argument, tuple):
                self._names[parameter.arg] = argument
            else:
                self._assign(parameter.arg, self._as_operand(argument, node))
        self._declare(self._tree)
        result_type = self._known.get(f"{name}.return")
        if result_type is not None:
            self._names["return"] = self.held(None, (ConstantOperand(0, result_type),))
        self.statements(self._tree.body)
        place = self._names.get("return")
        result = self._variable_value(place) if isinstance(place, Held) else _FALSE
        if signature is not None and signature.result is not None:
            result = self.builder.cast(result, signature.result)
        self._frames.pop()
        (
            self._names, self._scope, self._globals, self._line, self._file, self._tree,
            self._loops,
        ) = outer  # fmt: skip
        return result


class _Begin(ast.stmt):
    """A statement that the translation puts before those of a loop's body."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__()
        self.action = action


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
    collected: set[str] = set()
    for child in ast.iter_child_nodes(node):
        collected |= _jumps(child, in_loop=loop)
    return collected


def _reading(target: ast.expr) -> ast.expr:
    """The target of an assignment as an expression that reads it."""
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Subscript(value=value, slice=index):
            return ast.copy_location(ast.Subscript(value, index, ast.Load()), target)
        case _:
            return target
