"""The parts of loops and of `switch`: what libclang lists of them, and which loops count."""

from __future__ import annotations

from ..errors import UnsupportedConstruct
from . import clang, layout, scanner
from .cursors import Cursor


def for_parts(cursor: Cursor) -> tuple[Cursor | None, Cursor | None, Cursor | None, Cursor]:
    """Initialization, condition, increment and body of a `for`, absent ones None.

    libclang lists only those that there are, so the semicolons of the text tell which.
    """
    inner = clang.children(cursor)
    body, remaining = inner[-1], inner[:-1]
    if len(remaining) == 3:
        return remaining[0], remaining[1], remaining[2], body
    first, second = _semicolons(cursor)
    parts: list[Cursor | None] = [None, None, None]
    for item in remaining:
        start = item.extent.start.offset
        parts[0 if start < first else 1 if start < second else 2] = item
    return parts[0], parts[1], parts[2], body


def _semicolons(cursor: Cursor) -> tuple[int, int]:
    """Where the two semicolons of a `for` stand in its file."""
    depth, collected = 0, []
    for token in cursor.get_tokens():
        if token.spelling == "(":
            depth += 1
        elif token.spelling == ")":
            depth -= 1
        elif token.spelling == ";" and depth == 1:
            collected.append(token.extent.start.offset)
            if len(collected) == 2:
                return collected[0], collected[1]
    raise UnsupportedConstruct("a `for` that a macro writes", clang.location(cursor))


def references(cursor: Cursor) -> list[Cursor]:
    return [
        node
        for node in cursor.walk_preorder()
        if node.kind.name == "DECL_REF_EXPR" and node.referenced is not None
    ]


def names(cursor: Cursor, variable: Cursor) -> bool:
    """Whether an expression is just this variable."""
    node = scanner.stripped(cursor)
    return (
        node.kind.name == "DECL_REF_EXPR"
        and node.referenced is not None
        and node.referenced.hash == variable.hash
    )


_FIXED = frozenset(
    [
        "INTEGER_LITERAL",
        "DECL_REF_EXPR",
        "UNEXPOSED_EXPR",
        "PAREN_EXPR",
        "BINARY_OPERATOR",
        "CSTYLE_CAST_EXPR",
        "CXX_UNARY_EXPR",
        "MEMBER_REF_EXPR",
        "CXX_STATIC_CAST_EXPR",
        "TYPE_REF",
    ]
)


def is_fixed(cursor: Cursor, assigned: set[int]) -> bool:
    """Whether an expression is the same in each turn of a loop with these assignments."""
    for node in cursor.walk_preorder():
        if node.kind.name not in _FIXED:
            return False
        if node.kind.name == "MEMBER_REF_EXPR":
            base = scanner.root(node)
            if base is None or base.hash in assigned:
                return False
        if node.kind.name == "DECL_REF_EXPR":
            declaration = node.referenced
            if declaration is None:
                continue
            if declaration.hash in assigned:
                return False
            if declaration.kind.name == "VAR_DECL" and layout.scalar(node.type) is not None:
                parent = declaration.semantic_parent
                function = parent is not None and parent.kind.name in (
                    "FUNCTION_DECL", "CXX_METHOD", "FUNCTION_TEMPLATE",
                )  # fmt: skip
                shared = clang.attribute(declaration, "CUDASHARED_ATTR")
                if shared or not (function or declaration.type.is_const_qualified()):
                    return False
    return True


def whole(cursor: Cursor) -> int:
    value = clang.evaluated(cursor)
    return value if isinstance(value, int) else 0


def cases(body: Cursor) -> list[tuple[list[int | None], list[Cursor]]]:
    """The labels of a `switch` (None for the default) and what stands behind them."""
    groups: list[tuple[list[int | None], list[Cursor]]] = []
    for child in clang.children(body):
        labels: list[int | None] = []
        while child.kind.name in ("CASE_STMT", "DEFAULT_STMT"):
            inner = clang.children(child)
            labels.append(whole(inner[0]) if child.kind.name == "CASE_STMT" else None)
            child = inner[-1]
        if labels:
            groups.append((labels, []))
        if groups:
            groups[-1][1].append(child)
    return groups
