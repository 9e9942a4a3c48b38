"""Expressions of C++ as operations: conversions, places, calls, short circuits."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ..errors import UnsupportedConstruct
from ..ir.builder import RegionBuilder, block, moved
from ..ir.operations import (
    Address,
    Compute,
    ConstantOperand,
    If,
    Load,
    Operand,
    Operation,
    SourceLocation,
    Store,
)
from ..ir.types import ScalarType
from . import clang, layout, scanner
from .cursors import ClangType, Cursor, Held, Leaves, Place, Stored

_ARITHMETIC = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "&": "and", "|": "or", "^": "xor",
    "<<": "shl", ">>": "shr",
}  # fmt: skip
_COMPARISONS = {"<": "lt", ">": "gt", "<=": "le", ">=": "ge", "==": "eq", "!=": "ne"}
_RANKS = {
    ScalarType.I32: 1,
    ScalarType.U32: 2,
    ScalarType.I64: 3,
    ScalarType.U64: 4,
    ScalarType.F16: 5,
    ScalarType.F32: 6,
    ScalarType.F64: 7,
}
_INDICES = {
    "threadIdx": "thread",
    "blockIdx": "block",
    "blockDim": "block.dim",
    "gridDim": "grid.dim",
}
_TEMPLATE_PARAMETER = "TEMPLATE_NON_TYPE_PARAMETER"
_SPECULATIVE_LIMIT = 8
"""Operations that are done always rather than behind a branch."""
_UNSAFE = frozenset({"div", "rem"})
"""Of whole numbers, these may trap on the machine."""


def promoted(type: ScalarType) -> ScalarType:
    """C's integer promotion."""
    if type in (ScalarType.BOOL, ScalarType.I8, ScalarType.U8, ScalarType.I16, ScalarType.U16):
        return ScalarType.I32
    return type


def common(head_value: ScalarType, alternative: ScalarType) -> ScalarType:
    """C's usual arithmetic conversion."""
    return max(promoted(head_value), promoted(alternative), key=_RANKS.__getitem__)


class Expressions:
    """Translates expressions of one function. `Translator` adds statements and calls."""

    def __init__(self) -> None:
        self.builder = RegionBuilder()
        self.environment: dict[int, Leaves] = {}
        self.places: dict[int, Place] = {}
        """Of variables, by the hashes of their declarations."""
        self.this: Place | None = None
        self._keys = 0

    # --- what a translator of functions adds

    def call(self, cursor: Cursor) -> Leaves:
        raise NotImplementedError

    def called_place(self, cursor: Cursor) -> Place | None:
        raise NotImplementedError

    def global_place(self, declaration: Cursor) -> Place | Leaves:
        raise NotImplementedError

    # --- variables

    def new_key(self, leaves: Leaves) -> int:
        """A variable of its own that holds these values."""
        self._keys += 1
        self.environment[self._keys] = leaves
        return self._keys

    def held(self, type: ClangType | None, leaves: Leaves) -> Held:
        # Variables of the translator's own have no C type; only their leaves are looked at.
        return Held(self.new_key(leaves), 0, cast("ClangType", type))

    def read(self, place: Place) -> Leaves:
        at = self.builder.at
        parts = layout.leaves(place.type, at)
        if isinstance(place, Held):
            return self.environment[place.key][place.start : place.start + len(parts)]
        values = []
        for leaf in parts:
            result = self.builder.value(leaf.type)
            self.builder.write(Load(result, moved(place.address, leaf.offset), at))
            values.append(result)
        return tuple(values)

    def write(self, place: Place, values: Leaves) -> None:
        if isinstance(place, Held):
            before = self.environment[place.key]
            after = before[place.start + len(values) :]
            self.environment[place.key] = (*before[: place.start], *values, *after)
            return
        parts = layout.leaves(place.type, self.builder.at)
        if len(parts) != len(values):
            what = f"{len(values)} numbers for a {place.type.spelling}, which has {len(parts)}"
            raise UnsupportedConstruct(what, self.builder.at)
        for leaf, value in zip(parts, values, strict=True):
            address = moved(place.address, leaf.offset)
            self.builder.write(Store(address, value, leaf.type, self.builder.at))

    # --- values

    def scalar(self, cursor: Cursor) -> Operand:
        """The value of an expression of scalar type."""
        values = self.value(cursor)
        if len(values) != 1:
            raise UnsupportedConstruct(
                f"a value of type {cursor.type.spelling} here", clang.location(cursor)
            )
        return values[0]

    def condition(self, cursor: Cursor) -> Operand:
        return self.builder.cast(self.scalar(cursor), ScalarType.BOOL)

    def value(self, cursor: Cursor) -> Leaves:
        """The scalars of what an expression gives."""
        if cursor.location.line:
            self.builder.at = clang.location(cursor)
        translate = _VALUES.get(cursor.kind.name)
        if translate is None:
            raise UnsupportedConstruct(_described(cursor), self.builder.at)
        return translate(self, cursor)

    def literal(self, cursor: Cursor) -> Leaves:
        type = layout.scalar(cursor.type)
        value = clang.evaluated(cursor)
        if type is None or value is None or isinstance(value, bytes):
            raise UnsupportedConstruct(_described(cursor), self.builder.at)
        if type is ScalarType.PTR:
            return (ConstantOperand(int(value), type),)
        return (ConstantOperand(float(value) if type.is_float else int(value), type),)

    def null(self, cursor: Cursor) -> Leaves:
        return (ConstantOperand(0, ScalarType.PTR),)

    def wrapped(self, cursor: Cursor) -> Leaves:
        """Parentheses, casts that are written and casts that are not."""
        inner = [item for item in clang.children(cursor) if not item.kind.name.endswith("_REF")]
        if not inner:
            value = clang.evaluated(cursor)
            if value is None:
                raise UnsupportedConstruct(_described(cursor), self.builder.at)
            return self.literal(cursor)
        return self.converted(inner[-1], cursor.type)

    def converted(self, cursor: Cursor, type: ClangType) -> Leaves:
        source, target = layout.canonical(cursor.type), layout.canonical(type)
        if layout.is_array(source) and layout.kind(target) == "POINTER":
            place = self.place(cursor)
            return (self.pointer(place),)
        if layout.kind(target) == "VOID":
            self.value(cursor)
            return ()
        if layout.kind(source) == "RECORD" and layout.kind(target) == "RECORD":
            values = self.value(cursor)
            return values[: len(layout.leaves(target, self.builder.at))]
        required = layout.scalar(target)
        if required is None:
            return self.value(cursor)
        value = self.scalar(cursor)
        if ScalarType.PTR in (required, value.type) and isinstance(value, ConstantOperand):
            return (ConstantOperand(int(value.value), required),)
        return (self.builder.cast(value, required),)

    def pointer(self, place: Place) -> Operand:
        if isinstance(place, Held):
            raise UnsupportedConstruct(
                "the address of a value that is not in memory", self.builder.at
            )
        return self.builder.pointer(place.address)

    def name(self, cursor: Cursor) -> Leaves:
        declaration, inner = cursor.referenced, clang.children(cursor)
        if inner and (declaration is None or declaration.kind.name == _TEMPLATE_PARAMETER):
            return self.converted(inner[-1], cursor.type)
        if declaration.kind.name == "ENUM_CONSTANT_DECL":
            type = layout.scalar(cursor.type) or ScalarType.I32
            return (ConstantOperand(int(declaration.enum_value), type),)
        if declaration.hash not in self.places:
            if declaration.spelling == "warpSize":
                return (ConstantOperand(32, ScalarType.I32),)
            if declaration.spelling in _INDICES:
                names = (f"{_INDICES[declaration.spelling]}.{axis}" for axis in "xyz")
                return tuple(self.builder.index(item) for item in names)
        return self.read(self.place(cursor))

    def member(self, cursor: Cursor) -> Leaves:
        inner = clang.children(cursor)
        if inner:
            base = scanner.stripped(inner[0])
            if base.kind.name == "DECL_REF_EXPR" and base.spelling in _INDICES:
                return (self.builder.index(f"{_INDICES[base.spelling]}.{cursor.spelling}"),)
            if not _is_lvalue(base) and layout.kind(inner[0].type) == "RECORD":
                place = self.held(inner[0].type, self.value(inner[0]))
                return self.read(self._member_of(place, cursor))
        if cursor.referenced is not None and cursor.referenced.kind.name == "VAR_DECL":
            return self.name(cursor)
        return self.read(self.place(cursor))

    def from_place(self, cursor: Cursor) -> Leaves:
        return self.read(self.place(cursor))

    def unary(self, cursor: Cursor) -> Leaves:
        operator, (inner,) = clang.unary(cursor), clang.children(cursor)
        builder = self.builder
        match operator:
            case "++" | "--" | "post++" | "post--":
                return (self._stepped(inner, operator),)
            case "&":
                return (self.pointer(self.place(inner)),)
            case "*":
                return self.read(self.place(cursor))
            case "!":
                return (builder.negated(self.condition(inner)),)
            case "+":
                return (self.scalar(inner),)
            case "-" | "~":
                value = self.scalar(inner)
                name = "neg" if operator == "-" else "not"
                return (builder.compute(name, value.type, value),)
        raise UnsupportedConstruct(f"the operator {operator}", builder.at)

    def _stepped(self, cursor: Cursor, operator: str) -> Operand:
        """An increment or decrement: writes, and gives the new value or the one before."""
        place = self.place(cursor)
        (before,) = self.read(place)
        sign = 1 if operator.endswith("++") else -1
        if before.type is ScalarType.PTR:
            after = self.offset(
                before, ConstantOperand(sign, ScalarType.I64), layout.pointee(cursor.type)
            )
        else:
            wide = promoted(before.type)
            total = self.builder.compute(
                "add", wide, self.builder.cast(before, wide), ConstantOperand(sign, wide)
            )
            after = self.builder.cast(total, before.type)
        self.write(place, (after,))
        return before if operator.startswith("post") else after

    def offset(self, pointer: Operand, index: Operand, type: ClangType) -> Operand:
        """A pointer so many elements of a type further on."""
        address = self.builder.element(Address(pointer), index, layout.size(type))
        return self.builder.pointer(address)

    def binary(self, cursor: Cursor) -> Leaves:
        operator, (left, right) = clang.binary(cursor), clang.children(cursor)
        if operator == "=":
            values = self.value(right)
            self.write(self.place(left), values)
            return values
        if operator == ",":
            self.value(left)
            return self.value(right)
        if operator in ("&&", "||"):
            return (self._short_circuit(operator, left, right),)
        head_value, alternative = self.scalar(left), self.scalar(right)
        self.builder.at = clang.location(cursor)
        return (self.operate(operator, head_value, alternative, left.type, right.type),)

    def operate(
        self,
        operator: str,
        head_value: Operand,
        alternative: Operand,
        left: ClangType | None = None,
        right: ClangType | None = None,
    ) -> Operand:
        """An operator on two values of C, whose C types matter where they are pointers."""
        builder = self.builder
        if ScalarType.PTR in (head_value.type, alternative.type):
            return self._on_pointers(operator, head_value, alternative, left, right)
        if operator in ("<<", ">>"):
            wide = promoted(head_value.type)
            count = builder.cast(alternative, wide)
            return builder.compute(
                _ARITHMETIC[operator], wide, builder.cast(head_value, wide), count
            )
        type = common(head_value.type, alternative.type)
        head_value, alternative = builder.cast(head_value, type), builder.cast(alternative, type)
        if operator in _COMPARISONS:
            return builder.compare(_COMPARISONS[operator], head_value, alternative)
        if operator in _ARITHMETIC:
            return builder.compute(_ARITHMETIC[operator], type, head_value, alternative)
        raise UnsupportedConstruct(f"the operator {operator}", builder.at)

    def _on_pointers(
        self,
        operator: str,
        head_value: Operand,
        alternative: Operand,
        left: ClangType | None,
        right: ClangType | None,
    ) -> Operand:
        builder = self.builder
        if operator in _COMPARISONS:
            return builder.compare(
                _COMPARISONS[operator], _as_pointer(head_value), _as_pointer(alternative)
            )
        if operator == "-" and head_value.type is alternative.type is ScalarType.PTR:
            difference = builder.compute(
                "sub",
                ScalarType.I64,
                builder.cast(head_value, ScalarType.I64),
                builder.cast(alternative, ScalarType.I64),
            )
            size = ConstantOperand(layout.size(_target(left)), ScalarType.I64)
            return builder.compute("div", ScalarType.I64, difference, size)
        if operator == "+" and alternative.type is ScalarType.PTR:
            return self.offset(alternative, head_value, _target(right))
        if operator in ("+", "-"):
            index = builder.cast(alternative, ScalarType.I64)
            if operator == "-":
                index = builder.compute(
                    "sub", ScalarType.I64, ConstantOperand(0, ScalarType.I64), index
                )
            return self.offset(head_value, index, _target(left))
        raise UnsupportedConstruct(f"the operator {operator} on a pointer", builder.at)

    def compound(self, cursor: Cursor) -> Leaves:
        operator, (left, right) = clang.binary(cursor)[:-1], clang.children(cursor)
        value = self.scalar(right)
        place = self.place(left)
        (before,) = self.read(place)
        self.builder.at = clang.location(cursor)
        after = self.operate(operator, before, value, left.type, right.type)
        if before.type is not ScalarType.PTR:
            after = self.builder.cast(after, before.type)
        self.write(place, (after,))
        return (after,)

    def _short_circuit(self, operator: str, left: Cursor, right: Cursor) -> Operand:
        first = self.condition(left)
        outcome = ConstantOperand(operator == "||", ScalarType.BOOL)
        if isinstance(first, ConstantOperand):
            return first if first.value == outcome.value else self.condition(right)
        result = self.held(None, (outcome,))

        def second() -> None:
            self.environment[result.key] = (self.condition(right),)

        test = first if operator == "&&" else self.builder.negated(first)
        self.branch(test, second, _nothing)
        return self.environment[result.key][0]

    def conditional(self, cursor: Cursor) -> Leaves:
        test, head_value, alternative = clang.children(cursor)
        condition = self.condition(test)
        if isinstance(condition, ConstantOperand):
            return self.converted(head_value if condition.value else alternative, cursor.type)
        key = self.new_key(())

        def choose(arm: Cursor) -> Callable[[], None]:
            def assign() -> None:
                self.environment[key] = self.converted(arm, cursor.type)

            return assign

        self.branch(condition, choose(head_value), choose(alternative))
        return self.environment[key]

    def branch(
        self,
        condition: Operand,
        then: Callable[[], None],
        otherwise: Callable[[], None],
    ) -> None:
        """Writes a branch: what its arms assign leaves it as results.

        Arms that only compute a little are done both, and the condition selects.
        """
        if isinstance(condition, ConstantOperand):
            (then if condition.value else otherwise)()
            return
        at, before = self.builder.at, dict(self.environment)
        with self.builder.block() as first:
            then()
        head_value, self.environment = self.environment, dict(before)
        with self.builder.block() as second:
            otherwise()
        alternative, self.environment = self.environment, before
        merged = [
            (key, place, a, b)
            for key in sorted(before)
            for place, (a, b) in enumerate(_paired(head_value.get(key), alternative.get(key)))
        ]
        changed = [item for item in merged if item[2] != item[3]]
        values = self._joined(condition, first, second, [(a, b) for _, _, a, b in changed], at)
        for key, place, a, _ in merged:
            self._set_leaf(key, place, a)
        for (key, place, _, _), value in zip(changed, values, strict=True):
            self._set_leaf(key, place, value)

    def _joined(
        self,
        condition: Operand,
        first: list[Operation],
        second: list[Operation],
        pairs: list[tuple[Operand, Operand]],
        at: SourceLocation,
    ) -> list[Operand]:
        self.builder.at = at
        if (not first and not second) or _speculative([*first, *second]):
            for item in (*first, *second):
                self.builder.write(item)
            return [self._select(condition, a, b) for a, b in pairs]
        results = tuple(self.builder.value(a.type) for a, _ in pairs)
        arms = block(first, *(a for a, _ in pairs)), block(second, *(b for _, b in pairs))
        self.builder.write(If(condition, *arms, results, at))
        return list(results)

    def _select(self, condition: Operand, head_value: Operand, alternative: Operand) -> Operand:
        """Chooses; of truth values by logic, so that flags stay simple conditions."""
        builder = self.builder
        if head_value.type is ScalarType.BOOL and isinstance(head_value, ConstantOperand):
            if head_value.value:
                return builder.compute("or", ScalarType.BOOL, condition, alternative)
            return builder.compute("and", ScalarType.BOOL, builder.negated(condition), alternative)
        if head_value.type is ScalarType.BOOL and isinstance(alternative, ConstantOperand):
            if alternative.value:
                return builder.compute(
                    "or", ScalarType.BOOL, builder.negated(condition), head_value
                )
            return builder.compute("and", ScalarType.BOOL, condition, head_value)
        return builder.compute("select", head_value.type, condition, head_value, alternative)

    def _set_leaf(self, key: int, place: int, value: Operand) -> None:
        leaves = list(self.environment.get(key, ()))
        leaves += [ConstantOperand(0, value.type)] * (place + 1 - len(leaves))
        leaves[place] = value
        self.environment[key] = tuple(leaves)

    def constant(self, cursor: Cursor) -> Leaves:
        """`sizeof` and its kin."""
        return self.literal(cursor)

    def this_pointer(self, cursor: Cursor) -> Leaves:
        if self.this is None:
            raise UnsupportedConstruct("`this` here", self.builder.at)
        return (self.pointer(self.this),)

    def listed(self, cursor: Cursor) -> Leaves:
        """An initializer list, what it leaves out filled with zeros."""
        parts = layout.leaves(cursor.type, self.builder.at)
        values: list[Operand] = []
        for child in clang.children(cursor):
            values += self.value(child)
        values = [
            self.builder.cast(value, leaf.type) for value, leaf in zip(values, parts, strict=False)
        ]
        values += [ConstantOperand(0, leaf.type) for leaf in parts[len(values) :]]
        return tuple(values)

    # --- places

    def place(self, cursor: Cursor) -> Place:
        """What an expression designates; a mere value gets a place of its own."""
        if cursor.location.line:
            self.builder.at = clang.location(cursor)
        match cursor.kind.name:
            case "DECL_REF_EXPR":
                return self._named(cursor)
            case "PAREN_EXPR" | "UNEXPOSED_EXPR" | "CXX_CONST_CAST_EXPR":
                inner = clang.children(cursor)
                if inner and _is_lvalue(inner[-1]):
                    return self._viewed(self.place(inner[-1]), cursor.type)
            case "CSTYLE_CAST_EXPR" | "CXX_REINTERPRET_CAST_EXPR" | "CXX_STATIC_CAST_EXPR":
                inner = clang.children(cursor)
                if _is_lvalue(inner[-1]) and layout.scalar(cursor.type) is not ScalarType.PTR:
                    return self._viewed(self.place(inner[-1]), cursor.type)
            case "MEMBER_REF_EXPR":
                return self._member(cursor)
            case "ARRAY_SUBSCRIPT_EXPR":
                return self._subscript(cursor)
            case "UNARY_OPERATOR":
                return self._dereferenced(cursor)
            case "BINARY_OPERATOR" | "COMPOUND_ASSIGNMENT_OPERATOR" if _assigns(cursor):
                self.value(cursor)
                return self.place(clang.children(cursor)[0])
            case "CALL_EXPR":
                place = self.called_place(cursor)
                if place is not None:
                    return place
        return self.held(cursor.type, self.value(cursor))

    def _viewed(self, place: Place, type: ClangType) -> Place:
        if isinstance(place, Stored):
            return Stored(place.address, type)
        return place

    def _named(self, cursor: Cursor) -> Place:
        declaration = cursor.referenced
        place = self.places.get(declaration.hash)
        if place is not None:
            return place
        collected = self.global_place(declaration)
        return self.held(cursor.type, collected) if isinstance(collected, tuple) else collected

    def _member(self, cursor: Cursor) -> Place:
        inner = clang.children(cursor)
        if not inner or inner[0].kind.name == "CXX_THIS_EXPR":
            if self.this is None:
                raise UnsupportedConstruct("a member without its object", self.builder.at)
            return self._member_of(self.this, cursor)
        if layout.kind(inner[0].type) == "POINTER":
            base: Place = Stored(Address(self.scalar(inner[0])), layout.pointee(inner[0].type))
        else:
            base = self.place(inner[0])
        return self._member_of(base, cursor)

    def _member_of(self, base: Place, cursor: Cursor) -> Place:
        field = cursor.referenced
        if field is None or field.kind.name != "FIELD_DECL":
            raise UnsupportedConstruct(f"the member {cursor.spelling}", self.builder.at)
        if field.is_bitfield():
            raise UnsupportedConstruct(f"the bit field {field.spelling}", self.builder.at)
        offset = int(field.get_field_offsetof()) // 8
        if layout.is_reference(field.type):
            raise UnsupportedConstruct(
                f"the reference {field.spelling} in a struct", self.builder.at
            )
        if isinstance(base, Stored):
            return Stored(moved(base.address, offset), field.type)
        parts = layout.leaves(base.type, self.builder.at)
        start = next(place for place, leaf in enumerate(parts) if leaf.offset == offset)
        return Held(base.key, base.start + start, field.type)

    def _subscript(self, cursor: Cursor) -> Place:
        base, index = clang.children(cursor)
        if layout.scalar(base.type) is not ScalarType.PTR and not layout.is_array(base.type):
            base, index = index, base
        array = scanner.stripped(base)
        type = cursor.type
        if layout.is_array(array.type) and _is_lvalue(array):
            place = self.place(array)
            if isinstance(place, Held):
                raise UnsupportedConstruct("an index into a value", self.builder.at)
            address = place.address
        else:
            address = Address(self.scalar(base))
        count = self.scalar(index)
        self.builder.at = clang.location(cursor)
        return Stored(self.builder.element(address, count, layout.size(type)), type)

    def _dereferenced(self, cursor: Cursor) -> Place:
        operator, (inner,) = clang.unary(cursor), clang.children(cursor)
        if operator in ("++", "--"):
            self._stepped(inner, operator)
            return self.place(inner)
        if operator != "*":
            return self.held(cursor.type, self.value(cursor))
        target = scanner.stripped(inner)
        if target.kind.name == "CXX_THIS_EXPR" and self.this is not None:
            return self.this
        if layout.is_array(target.type) and _is_lvalue(target):
            return self._viewed(self.place(target), cursor.type)
        return Stored(Address(self.scalar(inner)), cursor.type)

    def pointer_to(self, cursor: Cursor) -> Operand:
        """The address of the first element of an array, as C passes arrays."""
        return self.builder.pointer(self.address(cursor))

    def address(self, cursor: Cursor) -> Address:
        """Of what a pointer expression points to; `&a[i]` keeps its index apart."""
        inner = scanner.stripped(cursor)
        if inner.kind.name == "UNARY_OPERATOR" and clang.unary(inner) == "&":
            place = self.place(clang.children(inner)[0])
            if isinstance(place, Stored):
                return place.address
        if layout.is_array(inner.type) and _is_lvalue(inner):
            place = self.place(inner)
            if isinstance(place, Stored):
                return place.address
        return Address(self.scalar(cursor))


def _nothing() -> None:
    return None


def _as_pointer(value: Operand) -> Operand:
    return (
        ConstantOperand(value.value, ScalarType.PTR)
        if isinstance(value, ConstantOperand)
        else value
    )


def _paired(head_value: Leaves | None, alternative: Leaves | None) -> list[tuple[Operand, Operand]]:
    """The leaves of a variable after either arm; what an arm does not declare is zero there."""
    if head_value is None or alternative is None:
        there = head_value or alternative or ()
        zeros = tuple(ConstantOperand(0, item.type) for item in there)
        return list(zip(head_value or zeros, alternative or zeros, strict=True))
    if len(head_value) != len(alternative):
        longer = max(head_value, alternative, key=len)
        head_value = (
            *head_value,
            *(ConstantOperand(0, item.type) for item in longer[len(head_value) :]),
        )
        alternative = (
            *alternative,
            *(ConstantOperand(0, item.type) for item in longer[len(alternative) :]),
        )
    return list(zip(head_value, alternative, strict=True))


def _speculative(lines: list[Operation]) -> bool:
    """Whether operations may be done where nobody asked for them, and are few."""
    return len(lines) <= _SPECULATIVE_LIMIT and all(
        isinstance(item, Compute) and not (item.name in _UNSAFE and not item.result.type.is_float)
        for item in lines
    )


def _target(pointer: ClangType | None) -> ClangType:
    """What a pointer points to; arithmetic is only done on pointers whose C type is there."""
    assert pointer is not None
    return layout.pointee(pointer)


def _assigns(cursor: Cursor) -> bool:
    return clang.binary(cursor).endswith("=") and clang.binary(cursor) not in _COMPARISONS


def _is_lvalue(cursor: Cursor) -> bool:
    """Whether an expression designates an object."""
    match cursor.kind.name:
        case "DECL_REF_EXPR":
            return (
                cursor.referenced is not None
                and cursor.referenced.kind.name
                in (
                    "VAR_DECL",
                    "PARM_DECL",
                )
                and cursor.referenced.spelling not in _INDICES
            )
        case "MEMBER_REF_EXPR":
            inner = clang.children(cursor)
            return not inner or layout.kind(inner[0].type) == "POINTER" or _is_lvalue(inner[0])
        case "ARRAY_SUBSCRIPT_EXPR":
            return True
        case "PAREN_EXPR":
            return _is_lvalue(clang.children(cursor)[0])
        case "UNEXPOSED_EXPR" | "CSTYLE_CAST_EXPR" | "CXX_STATIC_CAST_EXPR":
            inner = clang.children(cursor)
            return (
                bool(inner)
                and _is_lvalue(inner[-1])
                and (
                    layout.canonical(inner[-1].type).spelling.replace("const ", "")
                    == layout.canonical(cursor.type).spelling.replace("const ", "")
                )
            )
        case "UNARY_OPERATOR":
            return clang.unary(cursor) in ("*", "++", "--")
        case "CALL_EXPR":
            function = cursor.referenced
            return function is not None and layout.is_reference(function.result_type)
        case "BINARY_OPERATOR" | "COMPOUND_ASSIGNMENT_OPERATOR":
            return _assigns(cursor)
        case _:
            return False


def _described(cursor: Cursor) -> str:
    kind = cursor.kind.name.lower().replace("_", " ")
    return f"`{cursor.spelling}` ({kind})" if cursor.spelling else f"a {kind}"


_VALUES: dict[str, Callable[[Expressions, Cursor], Leaves]] = {
    "INTEGER_LITERAL": Expressions.literal,
    "FLOATING_LITERAL": Expressions.literal,
    "CHARACTER_LITERAL": Expressions.literal,
    "CXX_BOOL_LITERAL_EXPR": Expressions.literal,
    "CXX_NULL_PTR_LITERAL_EXPR": Expressions.null,
    "GNU_NULL_EXPR": Expressions.null,
    "CXX_UNARY_EXPR": Expressions.constant,
    "PAREN_EXPR": Expressions.wrapped,
    "UNEXPOSED_EXPR": Expressions.wrapped,
    "CSTYLE_CAST_EXPR": Expressions.wrapped,
    "CXX_STATIC_CAST_EXPR": Expressions.wrapped,
    "CXX_FUNCTIONAL_CAST_EXPR": Expressions.wrapped,
    "CXX_REINTERPRET_CAST_EXPR": Expressions.wrapped,
    "CXX_CONST_CAST_EXPR": Expressions.wrapped,
    "DECL_REF_EXPR": Expressions.name,
    "MEMBER_REF_EXPR": Expressions.member,
    "ARRAY_SUBSCRIPT_EXPR": Expressions.from_place,
    "UNARY_OPERATOR": Expressions.unary,
    "BINARY_OPERATOR": Expressions.binary,
    "COMPOUND_ASSIGNMENT_OPERATOR": Expressions.compound,
    "CONDITIONAL_OPERATOR": Expressions.conditional,
    "INIT_LIST_EXPR": Expressions.listed,
    "CXX_THIS_EXPR": Expressions.this_pointer,
    "CALL_EXPR": lambda self, cursor: self.call(cursor),
}
