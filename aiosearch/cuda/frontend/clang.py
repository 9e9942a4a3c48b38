"""libclang, as the extra `cuda` brings it: from text to a syntax tree; what its binding lacks."""

from __future__ import annotations

import atexit
import functools
import tempfile
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import SourceError
from ..ir.operations import SourceLocation
from .cursors import ClangExtent, ClangPoint, Cursor, Diagnostic, TranslationUnit

_STANDARD = (
    "cuda.h cuda_runtime.h cuda_runtime_api.h cuda_fp16.h cuda_bf16.h device_launch_parameters.h"
    " device_functions.h math_constants.h math_functions.h helper_cuda.h helper_functions.h"
    " helper_timer.h cutil.h cublas.h cublas_v2.h cudnn.h"
    " sm_20_atomic_functions.h vector_types.h curand.h curand_kernel.h assert.h ctype.h errno.h"
    " fcntl.h float.h inttypes.h limits.h malloc.h math.h memory.h omp.h stdbool.h stddef.h"
    " stdint.h"
    " stdio.h stdlib.h string.h sys/time.h sys/types.h sys/stat.h time.h unistd.h cassert cfloat"
    " climits cmath cstddef cstdint cstdio cstdlib cstring ctime algorithm iostream fstream"
    " sstream string vector utility limits"
)
"""Headers that a file may include and whose contents `runtime.h` stands for."""

_KEEP_GOING = 0x200
"""Goes on behind a header that is not found, which else would hide all later errors."""

_FLAGS = (
    "-x", "cuda", "-std=c++17", "-nocudainc", "-nocudalib", "--cuda-host-only", "-nostdinc",
    "-Wno-everything", "-ferror-limit=0",
)  # fmt: skip


@functools.cache
def library() -> Any:
    """Gives libclang's binding; raises SourceError that says how to install it."""
    try:
        from clang import cindex

        cindex.conf.lib  # noqa: B018  # loads the library, which may be absent
    except Exception as error:  # a shared library may fail in any way
        raise SourceError(
            f"libclang, which reads CUDA text, cannot be loaded ({error}):"
            " pip install 'aiosearch[cuda]'"
        ) from None
    return cindex


@functools.cache
def _headers() -> tuple[str, str]:
    """A folder of empty standard headers, and the header that stands for all of them."""
    folder = tempfile.TemporaryDirectory(prefix="aiosearch-cuda-")
    atexit.register(folder.cleanup)
    root = Path(folder.name)
    for name in _STANDARD.split():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#pragma once\n")
    runtime = root / "aiosearch_runtime.h"
    texts = resources.files(__package__)
    text = "\n".join(texts.joinpath(name).read_text() for name in ("runtime.h", "libraries.h"))
    runtime.write_text(f"#pragma once\n{text}")
    return str(root), str(runtime)


def parse(
    text: str, name: str, defines: Sequence[str] = (), include: Sequence[str] = ()
) -> TranslationUnit:
    """Gives the syntax tree of a file's text, whose `errors` are to be looked at.

    `defines` are of the form `NAME=VALUE`, and `include` are folders.
    """
    cindex = library()
    folder, runtime = _headers()
    arguments = [
        *_FLAGS,
        "-isystem",
        folder,
        "-include",
        runtime,
        *(f"-D{item}" for item in defines),
        *(f"-I{item}" for item in (str(Path(name).parent), *include)),
    ]
    index = cindex.Index.create()
    try:
        unit: TranslationUnit = index.parse(
            name, args=arguments, unsaved_files=[(name, text)], options=_KEEP_GOING
        )
    except cindex.TranslationUnitLoadError:
        raise SourceError(f"{name}: libclang cannot read the file") from None
    return unit


def errors(unit: TranslationUnit) -> list[Diagnostic]:
    """What the compiler could not make sense of."""
    least = library().Diagnostic.Error
    return [item for item in unit.diagnostics if item.severity >= least]


def require_right(function: Cursor, wrong: Sequence[Diagnostic]) -> None:
    """Raises SourceError with the errors in a function.

    Errors elsewhere do not matter: most files hold host code that needs headers which are not here.
    Where an error is, the syntax tree lacks statements, so such a function must not be translated.
    """
    inside = [item for item in wrong if _within(item, function.extent)]
    # What is undeclared is mostly declared in a header that is not here.
    absent = [item for item in wrong if item.spelling.endswith("file not found")]
    refuse([*absent, *inside] if inside else ())


def is_broken(declaration: Cursor) -> bool:
    """Whether an error left a type or a variable incomplete."""
    return bool(library().conf.lib.clang_isInvalidDeclaration(declaration))


def _within(error: Diagnostic, span: ClangExtent) -> bool:
    place, start, end = error.location, span.start, span.end
    if place.file is None or start.file is None or place.file.name != start.file.name:
        return False
    return bool(start.offset <= place.offset <= end.offset)


def refuse(wrong: Sequence[Diagnostic]) -> None:
    """Raises SourceError with the first errors, if there are any."""
    if wrong:
        lines = dict.fromkeys(f"{_place(item.location)}: {item.spelling}" for item in wrong)
        hint = "; folders of headers are `include` (-I)" if "file not found" in str(lines) else ""
        raise SourceError("; ".join([*lines][:5]) + hint)


def location(cursor: Cursor) -> SourceLocation:
    """Where a cursor stands in the text."""
    place = cursor.location
    return SourceLocation(place.file.name if place.file else "", place.line)


def _place(place: ClangPoint) -> str:
    return f"{place.file.name if place.file else ''}:{place.line}"


def children(cursor: Cursor) -> list[Cursor]:
    return list(cursor.get_children())


_BINARY = (
    "", "", "", "*", "/", "%", "+", "-", "<<", ">>", "<=>", "<", ">", "<=", ">=", "==", "!=", "&",
    "^", "|", "&&", "||", "=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|=", ",",
)  # fmt: skip
_UNARY = (
    "", "post++", "post--", "++", "--", "&", "*", "+", "-", "~", "!", "real", "imag", "extension",
    "await",
)  # fmt: skip


def binary(cursor: Cursor) -> str:
    """The operator of a binary or an assigning expression, as it is written."""
    return _BINARY[library().conf.lib.clang_getCursorBinaryOperatorKind(cursor)]


def unary(cursor: Cursor) -> str:
    return _UNARY[library().conf.lib.clang_getCursorUnaryOperatorKind(cursor)]


@functools.cache
def _evaluator() -> Any:
    import ctypes

    cindex = library()
    lib = cindex.conf.lib
    lib.clang_Cursor_Evaluate.argtypes = [cindex.Cursor]
    lib.clang_Cursor_Evaluate.restype = ctypes.c_void_p
    for name, kind in (
        ("Kind", ctypes.c_int),
        ("AsLongLong", ctypes.c_longlong),
        ("AsUnsigned", ctypes.c_ulonglong),
        ("isUnsignedInt", ctypes.c_uint),
        ("AsDouble", ctypes.c_double),
        ("AsStr", ctypes.c_char_p),
    ):
        function = getattr(
            lib, f"clang_EvalResult_{'get' if name != 'isUnsignedInt' else ''}{name}"
        )
        function.argtypes, function.restype = [ctypes.c_void_p], kind
    lib.clang_EvalResult_dispose.argtypes = [ctypes.c_void_p]
    return lib


def evaluated(cursor: Cursor) -> int | float | bytes | None:
    """What the compiler computes of an expression: literals, `sizeof`, constants. None if nothing.

    A literal that a macro gave has no tokens of its own to read, so this is how they are read.
    """
    lib = _evaluator()
    result = lib.clang_Cursor_Evaluate(cursor)
    if not result:
        return None
    try:
        kind = lib.clang_EvalResult_getKind(result)
        if kind == 1:
            if lib.clang_EvalResult_isUnsignedInt(result):
                return int(lib.clang_EvalResult_getAsUnsigned(result))
            return int(lib.clang_EvalResult_getAsLongLong(result))
        if kind == 2:
            return float(lib.clang_EvalResult_getAsDouble(result))
        if kind == 4:
            return bytes(lib.clang_EvalResult_getAsStr(result))
        return None
    finally:
        lib.clang_EvalResult_dispose(result)


def string(literal: Cursor) -> bytes | None:
    """The bytes of a string literal, of which libclang has the text with quotes and escapes."""
    if literal.kind.name != "STRING_LITERAL":
        return None
    text: str = literal.spelling
    quoted = text[text.find('"') + 1 : text.rfind('"')]
    return quoted.encode().decode("unicode_escape").encode("latin-1", "replace")


def functions(unit: TranslationUnit) -> Iterator[Cursor]:
    """The functions and templates of a tree that have a body, those in namespaces included."""
    yield from _functions(unit.cursor)


def _functions(cursor: Cursor) -> Iterator[Cursor]:
    for child in cursor.get_children():
        kind = child.kind.name
        if kind in ("NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL"):
            yield from _functions(child)
        elif kind in ("FUNCTION_DECL", "FUNCTION_TEMPLATE") and body(child) is not None:
            yield child


def body(function: Cursor) -> Cursor | None:
    """The braces of a function, if it has them here."""
    for child in function.get_children():
        if child.kind.name == "COMPOUND_STMT":
            return child
    return None


def braces(function: Cursor) -> Cursor:
    """The `body` of a function that is known to have one."""
    inner = body(function)
    assert inner is not None, f"{function.spelling} has no body"
    return inner


def is_kernel(function: Cursor) -> bool:
    return any(child.kind.name == "CUDAGLOBAL_ATTR" for child in function.get_children())


def is_device(function: Cursor) -> bool:
    return any(child.kind.name == "CUDADEVICE_ATTR" for child in function.get_children())


def parameters(function: Cursor) -> list[Cursor]:
    return [child for child in function.get_children() if child.kind.name == "PARM_DECL"]


def attribute(cursor: Cursor, name: str) -> bool:
    """Whether a declaration has one of CUDA's attributes, such as `CUDASHARED_ATTR`."""
    return any(child.kind.name == name for child in cursor.get_children())
