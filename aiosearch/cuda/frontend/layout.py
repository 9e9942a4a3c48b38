"""C types: which scalars they consist of, and where those lie."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import SourceError, UnsupportedConstruct
from ..ir.operations import SourceLocation
from ..ir.types import ScalarType
from . import clang
from .cursors import ClangType

_KINDS = {
    "BOOL": ScalarType.BOOL,
    "CHAR_S": ScalarType.I8,
    "CHAR_U": ScalarType.U8,
    "SCHAR": ScalarType.I8,
    "UCHAR": ScalarType.U8,
    "SHORT": ScalarType.I16,
    "USHORT": ScalarType.U16,
    "INT": ScalarType.I32,
    "UINT": ScalarType.U32,
    "LONG": ScalarType.I64,
    "ULONG": ScalarType.U64,
    "LONGLONG": ScalarType.I64,
    "ULONGLONG": ScalarType.U64,
    "HALF": ScalarType.F16,
    "FLOAT16": ScalarType.F16,
    "FLOAT": ScalarType.F32,
    "DOUBLE": ScalarType.F64,
    "POINTER": ScalarType.PTR,
    "LVALUEREFERENCE": ScalarType.PTR,
    "RVALUEREFERENCE": ScalarType.PTR,
    "NULLPTR": ScalarType.PTR,
}
_LARGEST_VALUE = 64
"""Leaves of a struct or array that is still kept as values instead of in memory."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar in a type."""

    offset: int
    type: ScalarType


def canonical(type: ClangType) -> ClangType:
    return type.get_canonical()


def kind(type: ClangType) -> str:
    """The kind of a type without its name; the binding lacks that of halves."""
    real = canonical(type)
    try:
        name: str = real.kind.name
    except ValueError:
        return "FLOAT16" if real.spelling.endswith("_Float16") else "UNKNOWN"
    return name


def scalar(type: ClangType) -> ScalarType | None:
    """The scalar that a type is; none for structs, arrays and `void`."""
    real = canonical(type)
    if kind(real) == "ENUM":
        return scalar(real.get_declaration().enum_type)
    return _KINDS.get(kind(real))


def is_array(type: ClangType) -> bool:
    return kind(type) in ("CONSTANTARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")


def is_reference(type: ClangType) -> bool:
    return kind(type) in ("LVALUEREFERENCE", "RVALUEREFERENCE")


def pointee(type: ClangType) -> ClangType:
    return canonical(type).get_pointee()


def element(type: ClangType) -> ClangType:
    """Of an array or a pointer."""
    real = canonical(type)
    return real.get_pointee() if kind(real) == "POINTER" else real.element_type


def size(type: ClangType) -> int:
    """Bytes; of `void` one, as compilers have it for arithmetic on its pointers."""
    real = canonical(type)
    if kind(real) == "VOID":
        return 1
    if kind(real) == "INCOMPLETEARRAY":
        return 0
    return max(int(real.get_size()), 1)


def leaves(type: ClangType, at: SourceLocation) -> tuple[Leaf, ...]:
    """The scalars of a type in the order of their addresses; of unions, the first member's."""
    real = canonical(type)
    single = scalar(real)
    if single is not None:
        return (Leaf(0, single),)
    match kind(real):
        case "RECORD":
            return _record(real, at)
        case "CONSTANTARRAY":
            inner, step = leaves(real.element_type, at), size(real.element_type)
            return tuple(
                Leaf(place * step + leaf.offset, leaf.type)
                for place in range(real.element_count)
                for leaf in inner
            )
        case "VOID":
            return ()
    raise UnsupportedConstruct(f"the type {type.spelling}", at)


def _record(real: ClangType, at: SourceLocation) -> tuple[Leaf, ...]:
    declaration = real.get_declaration()
    if any(map(clang.is_broken, (declaration, *real.get_fields()))):
        raise SourceError(f"{at}: there is an error in the declaration of {declaration.spelling}")
    collected: list[Leaf] = []
    offset = 0
    for child in declaration.get_children():
        if child.kind.name == "CXX_BASE_SPECIFIER":
            collected += (Leaf(offset + leaf.offset, leaf.type) for leaf in leaves(child.type, at))
            offset += size(child.type)
    union = declaration.kind.name == "UNION_DECL"
    for field in real.get_fields():
        if field.is_bitfield():
            raise UnsupportedConstruct(f"the bit field {field.spelling}", at)
        start = int(field.get_field_offsetof()) // 8
        collected += (Leaf(start + leaf.offset, leaf.type) for leaf in leaves(field.type, at))
        if union:
            break
    return tuple(collected)


def holds_array(type: ClangType) -> bool:
    """Whether a value of the type is better kept in memory, since an index may select in it."""
    real = canonical(type)
    if is_array(real):
        return True
    if kind(real) != "RECORD":
        return False
    if real.get_declaration().kind.name == "UNION_DECL":
        return True
    return any(holds_array(field.type) for field in real.get_fields())


def main_scalar(type: ClangType, at: SourceLocation) -> ScalarType:
    """The scalar that an allocation of the type mostly consists of."""
    real = canonical(type)
    while is_array(real):
        real = canonical(real.element_type)
    parts = leaves(real, at)
    return (
        parts[0].type
        if parts and all(item.type is parts[0].type for item in parts)
        else ScalarType.U8
    )


def uniform_element(type: ClangType, at: SourceLocation) -> ScalarType | None:
    """The scalar that every leaf of a type is, if it is one and they lie without gaps."""
    parts = leaves(type, at)
    if not parts or any(item.type is not parts[0].type for item in parts):
        return None
    return parts[0].type if len(parts) * parts[0].type.size == size(type) else None
