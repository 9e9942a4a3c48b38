"""Kernels: a user's function, the arguments of one call, and what both become to be timed.

A candidate travels to the processes that compile it as source text alone. So a kernel becomes a few
lines that import the function where it was written and call it with one configuration. A function
that no other process can import, as one of a notebook or inside another function, is traced here
and travels as StableHLO.
"""

from __future__ import annotations

import ast
import base64
import importlib.util
import inspect
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ..measure import ArrayType, Candidate
from .errors import TunerError
from .types import Function, Options, Pytree

HALF = ("float16", "bfloat16")


class ArgumentType(Struct, frozen=True):
    """What a space sees of an array argument: its shape and element type, never its values."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        import jax.numpy as jnp

        return int(jnp.dtype(self.dtype).itemsize)

    def __str__(self) -> str:
        return f"{_SHORT.get(self.dtype, self.dtype)}[{','.join(map(str, self.shape))}]"


_SHORT = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
    "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8",
}  # fmt: skip


@dataclass(frozen=True)
class KernelCall:
    """The arguments of a call: arrays or their types as leaves, and everything else as it is."""

    arguments: tuple[Pytree, ...]
    keywords: Options = field(default_factory=dict)

    @property
    def leaves(self) -> list[Pytree]:
        """The arrays, in the order in which jax finds them."""
        import jax

        leaves = jax.tree.leaves((self.arguments, dict(self.keywords)))
        return [leaf for leaf in leaves if is_array(leaf)]

    @property
    def types(self) -> tuple[ArgumentType, ...]:
        return tuple(map(type_of, self.leaves))

    @property
    def text(self) -> tuple[str, ...]:
        """One text for each argument: what tells two kinds of calls apart."""
        named = [f"{name}={shown(value)}" for name, value in sorted(self.keywords.items())]
        return (*map(shown, self.arguments), *named)

    def typed(self) -> KernelCall:
        """The same with types in the place of arrays, as a space is given it."""
        arguments = tuple(_typed(argument) for argument in self.arguments)
        return KernelCall(arguments, {name: _typed(value) for name, value in self.keywords.items()})

    def with_leaves(self, leaves: Sequence[Pytree]) -> KernelCall:
        """The same with other arrays."""
        import jax

        tree = (self.arguments, dict(self.keywords))
        flat, structure = jax.tree.flatten(tree)
        fresh = iter(leaves)
        flat = [next(fresh) if is_array(leaf) else leaf for leaf in flat]
        arguments, keywords = jax.tree.unflatten(structure, flat)
        return KernelCall(arguments, keywords)


def is_array(value: Pytree) -> bool:
    """Whether it is an array, a tracer, or the type of one."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def type_of(value: Pytree) -> ArgumentType:
    return ArgumentType(tuple(map(int, value.shape)), str(value.dtype))


def resized(value: Pytree, axis: int, size: int) -> Pytree:
    """The type of an array with another size along an axis, whatever is in it."""
    type_ = type_of(value)
    shape = (*type_.shape[:axis], size, *type_.shape[axis + 1 :])
    return placeholders([ArgumentType(shape, type_.dtype)])[0]


def shown(value: Pytree) -> str:
    """An argument in few letters: f32[8,64] for an array, Python's own text for a number."""
    if is_array(value):
        return str(type_of(value))
    if isinstance(value, tuple | list):
        opening, closing = "()" if isinstance(value, tuple) else "[]"
        return f"{opening}{', '.join(map(shown, value))}{closing}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(value[key])}" for key in sorted(value)) + "}"
    return repr(value)


def _typed(argument: Pytree) -> Pytree:
    import jax

    return jax.tree.map(lambda leaf: type_of(leaf) if is_array(leaf) else leaf, argument)


@dataclass(frozen=True)
class Origin:
    """Where another process finds a function."""

    module: str
    file: str
    qualname: str

    @property
    def name(self) -> str:
        return f"{self.module}:{self.qualname}"


def origin_of(function: Function) -> Origin | None:
    """Where a function can be imported; None where it cannot, as inside another function."""
    qualname = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if not qualname or "<" in qualname or module is None:
        return None
    file = getattr(module, "__file__", None) or ""
    # A script is `__main__`; where it was started with -m it has a name of its own as well.
    spec = getattr(module, "__spec__", None)
    name = spec.name if spec is not None else module.__name__
    if name == "__main__" and not file:
        return None
    if not _is_importable(name, module) and not Path(file).is_file():
        return None
    return Origin(name if _is_importable(name, module) else "", os.path.abspath(file), qualname)


def _is_importable(name: str, module: ModuleType) -> bool:
    if name == "__main__":
        return False
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin == getattr(module, "__file__", None)


def kernel_name(function: Function) -> str:
    """What tables call a function: its module and name, and of a script the file's name."""
    module = str(getattr(function, "__module__", "") or "")
    main = sys.modules.get("__main__")
    if module == "__main__" and getattr(main, "__file__", None):
        module = Path(str(main.__file__)).stem  # type: ignore[union-attr]  # it has one
    return f"{module}:{getattr(function, '__qualname__', type(function).__qualname__)}"


def source_digest(*functions: Function | None) -> str:
    """Changes when the text of one of the functions does; empty where none has a text."""
    texts = []
    for function in functions:
        if function is None:
            continue
        try:
            texts.append(inspect.getsource(inspect.unwrap(function)))
        except (OSError, TypeError):
            continue
    if not texts:
        return ""
    return blake2b("\n".join(texts).encode(), digest_size=6).hexdigest()


_HEAD = """\
import importlib, importlib.util, sys

def _found(module, file, qualname, path):
    for entry in path:
        if entry not in sys.path:
            sys.path.append(entry)
    if module:
        found = importlib.import_module(module)
    else:
        name = "aiosearch_tuned_script"
        found = sys.modules.get(name)
        if getattr(found, "__file__", None) != file:
            spec = importlib.util.spec_from_file_location(name, file)
            found = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found)
    for part in qualname.split("."):
        found = getattr(found, part)
    return getattr(found, "original", found)

_function = _found({module!r}, {file!r}, {qualname!r}, {path!r})
"""

CUSTOM_CALLS = {"cpu_csr_sparse_dense_ffi": "jax.experimental.sparse"}
"""Kernels of jax that are linked where a module is imported, and not promised to other versions."""

_PORTABLE = """\
import base64
import jax
{imports}
from jax import export

_exported = export.deserialize(bytearray(base64.b85decode({text!r})))

def candidate(*leaves):
    return _exported.call(*leaves)
"""

_BODY = """
class TraceError(Exception):
    pass

class ShapeError(Exception):
    pass

_expected = {expected!r}

def candidate(*leaves):
    import jax

    try:
        result = _function({call})
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise TraceError(f"{{type(error).__name__}}: {{lines[0]}}") from error
    if _expected is not None:
        found = [(str(leaf.dtype), tuple(leaf.shape)) for leaf in jax.tree.leaves(result)]
        if found != _expected:
            raise ShapeError(f"gives {{found}} where the reference gives {{_expected}}")
    return result
"""


@runtime_checkable
class PrintedFunction(Protocol):
    """A function that writes itself down, as one that is scheduled and printed for a device."""

    def printed(self, call: KernelCall, configuration: Options, /) -> str:
        """The text of a module that defines `_function`, of the arrays of a call in order."""
        ...


def candidate(
    function: Function,
    call: KernelCall,
    configuration: Options,
    *,
    name: str,
    expected: Sequence[tuple[str, tuple[int, ...]]] | None = None,
    widened: bool = False,
) -> Candidate:
    """The text of a call with one configuration, as executors compile it.

    `expected` are types and shapes of outputs, of which any other is an error. A `widened` one
    takes float64 in the place of all floats, and computes what others are compared with.
    """
    import jax

    types = tuple(ArrayType(type_.dtype, type_.shape) for type_ in call.types)
    if widened:
        types = tuple(ArrayType(_widest(type_.dtype), type_.shape) for type_ in types)
    keywords = {**call.keywords, **configuration}
    origin = origin_of(function)
    expected_text = None if expected is None else [(kind, tuple(shape)) for kind, shape in expected]
    if isinstance(function, PrintedFunction):
        text = function.printed(call, configuration)
        count = len(types)
        leaves = ", ".join(f"leaves[{at}]" for at in range(count))
        source = text + _BODY.format(call=leaves, expected=expected_text)
    elif origin is not None:
        head = source_head(origin, search_path())
        text = call_text(KernelCall(call.arguments, keywords))
        source = head + _BODY.format(call=text, expected=expected_text)
    else:
        source = _portable(function, call, keywords, types)
    settings = jax.config.values
    return Candidate(
        name,
        source,
        "candidate",
        types,
        x64=widened or bool(settings["jax_enable_x64"]),
        precision=settings["jax_default_matmul_precision"],
        promotion=settings["jax_numpy_dtype_promotion"],
    )


def reference_candidate(reference: Function, call: KernelCall, kernel: str) -> Candidate:
    """The reference of a kernel; raises TunerError where it has to be traced here and cannot be."""
    try:
        return candidate(reference, call, {}, name="reference")
    except TunerError:
        raise
    except Exception as error:  # a lambda of the user's raises what it likes
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        types = ", ".join(call.text)
        raise TunerError(
            f"the reference of {kernel} cannot be traced for {types}: {reason}"
        ) from error


def source_head(origin: Origin, path: Sequence[str]) -> str:
    """The lines that import a function as `_function`; of a tunable, the function below it."""
    return _HEAD.format(
        module=origin.module, file=origin.file, qualname=origin.qualname, path=list(path)
    )


def placeholders(types: Sequence[ArgumentType | ArrayType]) -> list[Pytree]:
    """What jax traces a function on where there are no arrays."""
    import jax

    make: Function = jax.ShapeDtypeStruct
    return [make(type_.shape, type_.dtype) for type_ in types]


def output_types(
    function: Function, call: KernelCall, options: Options
) -> list[tuple[str, tuple[int, ...]]] | None:
    """What a call gives; nothing where jax cannot say so without running it."""
    import jax

    def flat(*leaves: Pytree) -> Pytree:
        filled = call.with_leaves(leaves)
        return function(*filled.arguments, **filled.keywords, **options)

    specs = placeholders(call.types)
    try:
        outputs = jax.tree.leaves(jax.eval_shape(flat, *specs))
    except Exception:  # the processes that compile it will say what is wrong
        return None
    return [(str(output.dtype), tuple(output.shape)) for output in outputs]


def search_path() -> list[str]:
    """Where this process looks for modules, from wherever another process is started."""
    return [os.path.abspath(entry) for entry in sys.path]


def _widest(dtype: str) -> str:
    return "float64" if dtype in ("float32", *HALF) else dtype


def call_text(call: KernelCall) -> str:
    """What stands between the brackets of a call, where arrays are `leaves[0]`, `leaves[1]` ..."""
    import jax

    tree = (call.arguments, dict(call.keywords))
    flat, structure = jax.tree.flatten(tree)
    count = 0
    marked = []
    for leaf in flat:
        if is_array(leaf):
            marked.append(_Leaf(count))
            count += 1
        else:
            marked.append(leaf)
    arguments, keywords = jax.tree.unflatten(structure, marked)
    parts = [_text(argument) for argument in arguments]
    # Names of sites need not be Python's, where a kernel takes any keyword.
    parts += ["**{" + f"{name!r}: {_text(value)}" + "}" for name, value in keywords.items()]
    return ", ".join(parts)


@dataclass(frozen=True)
class _Leaf:
    number: int

    def __repr__(self) -> str:
        return f"leaves[{self.number}]"


def _text(value: Pytree) -> str:
    match value:
        case _Leaf():
            return repr(value)
        case tuple() if type(value) is tuple:
            return "(" + "".join(f"{_text(entry)}, " for entry in value) + ")"
        case list():
            return "[" + ", ".join(map(_text, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{key!r}: {_text(entry)}" for key, entry in value.items()) + "}"
    text = repr(value)
    try:
        same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise TunerError(
            f"an argument of type {type(value).__name__} cannot be written down: give arrays,"
            " numbers, texts, and tuples, lists and dicts of them, or bind it in a function"
        )
    return text


def _portable(
    function: Function,
    call: KernelCall,
    keywords: Options,
    types: Sequence[ArrayType],
) -> str:
    """The StableHLO of a call, as text; raises what the function raises when it is traced."""
    import jax
    from jax import export

    def flat(*leaves: Pytree) -> Pytree:
        filled = KernelCall(call.arguments, call.keywords).with_leaves(leaves)
        options = {name: value for name, value in keywords.items() if name not in filled.keywords}
        return function(*filled.arguments, **filled.keywords, **options)

    # Whoever runs it runs the jax that is here.
    unchecked = [export.DisabledSafetyCheck.custom_call(target) for target in CUSTOM_CALLS]
    exported = export.export(jax.jit(flat), disabled_checks=unchecked)(*placeholders(types))
    linked = [CUSTOM_CALLS[target] for target in CUSTOM_CALLS if target in exported.mlir_module()]
    return _PORTABLE.format(
        imports="\n".join(f"import {module}" for module in linked),
        text=base64.b85encode(exported.serialize()).decode(),
    )
