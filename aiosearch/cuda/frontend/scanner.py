"""What can be read off the syntax tree before it is translated: assignments, jumps, barriers."""

from __future__ import annotations

from collections.abc import Iterable

from . import clang, layout
from .cursors import Cursor

BARRIERS = frozenset(
    {"__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or"}
)
_LOOPS = frozenset({"FOR_STMT", "WHILE_STMT", "DO_STMT"})
_WRAPPERS = frozenset({"UNEXPOSED_EXPR", "PAREN_EXPR"})
_INCREMENTS = frozenset({"++", "--", "post++", "post--"})


def stripped(cursor: Cursor) -> Cursor:
    """The expression below parentheses and implicit casts."""
    while cursor.kind.name in _WRAPPERS:
        inner = clang.children(cursor)
        if not inner:
            return cursor
        cursor = inner[-1]
    return cursor


def root(cursor: Cursor) -> Cursor | None:
    """The variable that an expression designates a part of, if it does without a pointer."""
    while True:
        cursor = stripped(cursor)
        match cursor.kind.name:
            case "DECL_REF_EXPR":
                return cursor.referenced
            case "MEMBER_REF_EXPR" | "ARRAY_SUBSCRIPT_EXPR":
                inner = clang.children(cursor)
                if not inner or layout.kind(inner[0].type) == "POINTER":
                    base = stripped(inner[0]) if inner else None
                    if base is None or not layout.is_array(base.type):
                        return None
                cursor = inner[0]
            case "CSTYLE_CAST_EXPR" | "CXX_REINTERPRET_CAST_EXPR" | "CXX_STATIC_CAST_EXPR":
                cursor = clang.children(cursor)[-1]
            case _:
                return None


def assigned(cursors: Iterable[Cursor]) -> set[int]:
    """The variables that may be assigned somewhere inside, by the hashes of their declarations."""
    collected: set[int] = set()
    for cursor in cursors:
        for node in cursor.walk_preorder():
            for target in _targets(node):
                variable = root(target)
                if variable is not None:
                    collected.add(variable.hash)
    return collected


def _targets(node: Cursor) -> list[Cursor]:
    """What a node writes to."""
    match node.kind.name:
        case "COMPOUND_ASSIGNMENT_OPERATOR":
            return clang.children(node)[:1]
        case "BINARY_OPERATOR" if clang.binary(node) == "=":
            return clang.children(node)[:1]
        case "UNARY_OPERATOR" if clang.unary(node) in _INCREMENTS:
            return clang.children(node)[:1]
        case "VAR_DECL" if layout.is_reference(node.type):
            return clang.children(node)[-1:]
        case "CALL_EXPR":
            return _written_arguments(node)
        case _:
            return []


def _written_arguments(call: Cursor) -> list[Cursor]:
    """Arguments that a call takes by reference, and the object of a method."""
    function = call.referenced
    if function is None:
        return []
    inner = clang.children(call)
    if function.kind.name == "CXX_METHOD" and inner:
        operator = function.spelling.startswith("operator")
        callee = inner[0]
        if operator and callee.kind.name != "MEMBER_REF_EXPR":
            return [callee]
        return clang.children(callee)[:1]
    arguments = list(call.get_arguments())
    return [
        argument
        for parameter, argument in zip(clang.parameters(function), arguments, strict=False)
        if layout.is_reference(parameter.type)
        and not layout.pointee(parameter.type).is_const_qualified()
    ]


def addressed(body: Cursor) -> set[int]:
    """The variables whose address is taken somewhere inside."""
    collected: set[int] = set()
    for node in body.walk_preorder():
        if node.kind.name == "UNARY_OPERATOR" and clang.unary(node) == "&":
            variable = root(clang.children(node)[0])
            if variable is not None:
                collected.add(variable.hash)
    return collected


def jumps(cursor: Cursor, *, in_loop: bool = False, in_switch: bool = False) -> set[str]:
    """Which of `return`, `break` and `continue` may leave a statement."""
    kind = cursor.kind.name
    match kind:
        case "RETURN_STMT":
            return {"return"}
        case "BREAK_STMT":
            return set() if in_loop or in_switch else {"break"}
        case "CONTINUE_STMT":
            return set() if in_loop else {"continue"}
        case "LAMBDA_EXPR":
            return set()
    loop = in_loop or kind in _LOOPS
    switch = (in_switch and kind not in _LOOPS) or kind == "SWITCH_STMT"
    collected: set[str] = set()
    for child in cursor.get_children():
        collected |= jumps(child, in_loop=loop, in_switch=switch)
    return collected


class Barriers:
    """Which statements may wait for other threads, in functions that they call, too."""

    def __init__(self) -> None:
        self._known: dict[int, bool] = {}

    def inside(self, cursor: Cursor) -> bool:
        for node in cursor.walk_preorder():
            if node.kind.name != "CALL_EXPR":
                continue
            if node.spelling in BARRIERS or self._calls(node.referenced):
                return True
        return False

    def _calls(self, function: Cursor) -> bool:
        if function is None:
            return False
        if function.hash not in self._known:
            self._known[function.hash] = False  # what calls itself is refused later
            body = clang.body(function)
            self._known[function.hash] = body is not None and self.inside(body)
        return self._known[function.hash]
