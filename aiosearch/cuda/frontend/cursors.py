"""What is read of libclang's syntax trees, as types: its binding ships none.

The protocols list the attributes that the translator reads, and no others. Where libclang gives
None although the protocol does not say so, the attribute's text does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..ir.operations import Address, Operand


class ClangKind(Protocol):
    """The kind of a `Cursor`, a `ClangType` or a template's argument, such as `CALL_EXPR`."""

    @property
    def name(self) -> str: ...

    def is_expression(self) -> bool: ...


class ClangFile(Protocol):
    """A file that the compiler read."""

    @property
    def name(self) -> str: ...


class ClangPoint(Protocol):
    """A point in a file; what the compiler wrote itself has no file, and line 0."""

    @property
    def file(self) -> ClangFile | None: ...

    @property
    def line(self) -> int: ...

    @property
    def offset(self) -> int: ...


class ClangExtent(Protocol):
    """From where to where a `Cursor` or a `ClangToken` reaches."""

    @property
    def start(self) -> ClangPoint: ...

    @property
    def end(self) -> ClangPoint: ...


class ClangToken(Protocol):
    """A word or sign of the text."""

    @property
    def spelling(self) -> str: ...

    @property
    def extent(self) -> ClangExtent: ...


class Diagnostic(Protocol):
    """A warning or an error of the compiler."""

    @property
    def severity(self) -> int: ...

    @property
    def spelling(self) -> str: ...

    @property
    def location(self) -> ClangPoint: ...


class ClangType(Protocol):
    """A C++ type, as it is written or, behind `get_canonical`, without its names."""

    @property
    def kind(self) -> ClangKind: ...

    @property
    def spelling(self) -> str: ...

    @property
    def element_type(self) -> ClangType: ...

    @property
    def element_count(self) -> int: ...

    def get_canonical(self) -> ClangType: ...

    def get_pointee(self) -> ClangType: ...

    def get_declaration(self) -> Cursor: ...

    def get_fields(self) -> Iterable[Cursor]: ...

    def get_size(self) -> int: ...

    def is_const_qualified(self) -> bool: ...


class Cursor(Protocol):
    """A node of the syntax tree: a declaration, a statement or an expression."""

    @property
    def kind(self) -> ClangKind: ...

    @property
    def spelling(self) -> str: ...

    @property
    def hash(self) -> int: ...

    @property
    def type(self) -> ClangType: ...

    @property
    def location(self) -> ClangPoint: ...

    @property
    def extent(self) -> ClangExtent: ...

    @property
    def referenced(self) -> Cursor:
        """The declaration that a name or call means; None of a call through a pointer."""

    @property
    def semantic_parent(self) -> Cursor | None: ...

    @property
    def storage_class(self) -> ClangKind: ...

    @property
    def result_type(self) -> ClangType: ...

    @property
    def enum_type(self) -> ClangType: ...

    @property
    def enum_value(self) -> int: ...

    def get_children(self) -> Iterator[Cursor]: ...

    def get_arguments(self) -> Iterator[Cursor]: ...

    def get_tokens(self) -> Iterator[ClangToken]: ...

    def walk_preorder(self) -> Iterator[Cursor]: ...

    def get_definition(self) -> Cursor | None: ...

    def get_usr(self) -> str: ...

    def get_field_offsetof(self) -> int: ...

    def get_num_template_arguments(self) -> int: ...

    def get_template_argument_kind(self, place: int, /) -> ClangKind: ...

    def get_template_argument_type(self, place: int, /) -> ClangType: ...

    def get_template_argument_value(self, place: int, /) -> int: ...

    def is_bitfield(self) -> bool: ...

    def is_static_method(self) -> bool: ...

    def is_copy_constructor(self) -> bool: ...

    def is_move_constructor(self) -> bool: ...

    def is_default_constructor(self) -> bool: ...


class TranslationUnit(Protocol):
    """A file with all that it includes, as the compiler read it."""

    @property
    def cursor(self) -> Cursor: ...

    @property
    def diagnostics(self) -> Iterable[Diagnostic]: ...


Leaves: TypeAlias = tuple[Operand, ...]
"""The scalars of a C value in the order of their addresses: three for a `float3`."""


@dataclass(frozen=True, slots=True)
class Held:
    """A part of a variable whose address nobody takes; its value is in the environment."""

    key: int
    start: int
    type: ClangType
    """Of clang's."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object in memory."""

    address: Address
    type: ClangType


Place: TypeAlias = Held | Stored
