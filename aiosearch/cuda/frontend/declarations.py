"""What declarations and calls are: initializers, tables, launches, the names of instances."""

from __future__ import annotations

from ..errors import UnsupportedConstruct
from ..ir.builder import RegionBuilder
from ..ir.operations import Parameter
from ..ir.types import ScalarType
from . import clang, layout, scanner
from .cursors import Cursor


def signature(function: Cursor) -> str:
    """The name of a function with the arguments of its template: `scale<float, 64>`."""
    name: str = function.spelling
    count = function.get_num_template_arguments()
    if count <= 0:
        return name
    listed = []
    for place in range(count):
        kind = function.get_template_argument_kind(place).name
        if kind == "TYPE":
            listed.append(function.get_template_argument_type(place).spelling)
        else:
            listed.append(str(function.get_template_argument_value(place)))
    return f"{name}<{', '.join(listed)}>"


def copies(function: Cursor) -> bool:
    """Whether it is an assignment that the compiler wrote, which copies member by member."""
    if function.spelling != "operator=":
        return False
    parameters = clang.parameters(function)
    return not parameters or not parameters[0].spelling


def configuration(call: Cursor) -> Cursor | None:
    """The call that `<<<...>>>` stands for, if this is a launch."""
    inner = clang.children(call)
    marker = "__cudaPushCallConfiguration"
    if len(inner) > 1 and inner[1].kind.name == "CALL_EXPR" and inner[1].spelling == marker:
        return inner[1]
    return None


def initializer(declaration: Cursor) -> Cursor | None:
    """What a variable begins with. The sizes of an array are children of its declaration, too."""
    inner = [child for child in clang.children(declaration) if child.kind.is_expression()]
    if not inner:
        return None
    if layout.is_array(declaration.type):
        last = inner[-1]
        return last if last.kind.name in ("INIT_LIST_EXPR", "STRING_LITERAL", "CALL_EXPR") else None
    return inner[-1]


def is_default(initial: Cursor) -> bool:
    """Whether it is the call of a constructor that leaves the memory as it is."""
    return (
        initial.kind.name == "CALL_EXPR"
        and not list(initial.get_arguments())
        and (initial.referenced is None or clang.body(initial.referenced) is None)
    )


def table(declaration: Cursor) -> tuple[int | float, ...] | None:
    """The numbers that a table begins with."""
    initial = initializer(declaration)
    if initial is None or initial.kind.name == "CALL_EXPR":
        return None
    collected: list[int | float] = []

    def collect(cursor: Cursor) -> None:
        if cursor.kind.name == "INIT_LIST_EXPR":
            for child in clang.children(cursor):
                collect(child)
            return
        value = clang.evaluated(cursor)
        if value is None or isinstance(value, bytes):
            raise UnsupportedConstruct(
                f"what {declaration.spelling} begins with", clang.location(cursor)
            )
        collected.append(value)

    collect(initial)
    return tuple(collected)


def is_symbol(argument: Cursor) -> bool:
    node = scanner.stripped(argument)
    if node.kind.name != "DECL_REF_EXPR" or node.referenced is None:
        return False
    return clang.attribute(node.referenced, "CUDACONSTANT_ATTR") or clang.attribute(
        node.referenced, "CUDADEVICE_ATTR"
    )


def array_parameter(cursor: Cursor, builder: RegionBuilder) -> Parameter:
    """A parameter such as `double a[][64]`, which C passes as a pointer to its first row."""
    at, row = clang.location(cursor), layout.element(cursor.type)
    item = row
    while layout.is_array(item):
        if layout.kind(item) == "VARIABLEARRAY":
            raise UnsupportedConstruct(f"{cursor.spelling} with rows of a variable length", at)
        item = layout.element(item)
    value = builder.value(ScalarType.PTR, cursor.spelling)
    element, const = layout.uniform_element(item, at), item.is_const_qualified()
    return Parameter(value, cursor.spelling, element, const, layout.size(row))
