"""A file of CUDA text: which kernels and host functions it has, and their IR."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from ..errors import AbsentFunction, SourceError
from ..ir.operations import ParallelFunction
from . import clang
from .cursors import Cursor
from .translator import Translator


class CudaSource:
    """The text of a file. Functions are translated when they are asked for, each once."""

    def __init__(
        self,
        text: str,
        name: str,
        *,
        defines: Sequence[str] = (),
        include: Sequence[str | Path] = (),
    ) -> None:
        self.text = text
        self.name = name
        self._defines = tuple(defines)
        self._include = tuple(str(item) for item in include)
        self._functions: dict[str, ParallelFunction] = {}
        self._unit = clang.parse(text, name, self._defines, self._include)
        self._errors = clang.errors(self._unit)
        collected: dict[str, Cursor] = {}
        for cursor in clang.functions(self._unit):
            if cursor.location.file is None or "aiosearch_runtime" in cursor.location.file.name:
                continue
            collected.setdefault(cursor.spelling, cursor)
        self._cursors = collected

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels, templates included, in the order of the text."""
        return tuple(name for name, item in self._cursors.items() if clang.is_kernel(item))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the functions that run on the host and are no templates."""
        return tuple(
            name
            for name, item in self._cursors.items()
            if not clang.is_kernel(item)
            and not clang.is_device(item)
            and item.kind.name == "FUNCTION_DECL"
        )

    def require_kernels(self) -> None:
        """Raises SourceError for a text that has none, with what a compiler has against it."""
        if not self.kernels:
            clang.refuse(self._errors)
            raise SourceError(f"{self.name} has no kernels: functions that are __global__")

    def function(self, name: str) -> ParallelFunction:
        """The IR of a kernel or host function; `scale<float, 64>` instantiates a template."""
        if name not in self._functions:
            cursor = self._cursor(name)
            translator = Translator(is_kernel=clang.is_kernel(cursor), errors=self._errors)
            self._functions[name] = translator.function(cursor)
        return self._functions[name]

    def _cursor(self, name: str) -> Cursor:
        base = name.partition("<")[0].strip()
        cursor = self._cursors.get(base)
        if cursor is None:
            clang.refuse(self._errors)
            meant = get_close_matches(base, self._cursors, 1)
            hint = f" (did you mean {meant[0]}?)" if meant else ""
            raise AbsentFunction(f"{self.name} has no function {base}{hint}")
        if cursor.kind.name != "FUNCTION_TEMPLATE":
            return cursor
        if base == name:
            raise SourceError(f"{base} is a template: say for which arguments, as in {base}<float>")
        return self._instantiated(name, base)

    def _instantiated(self, name: str, base: str) -> Cursor:
        """The declaration that the compiler makes of a template, by a function that names it."""
        text = f"{self.text}\nstatic void aio_instance() {{ auto p = &{name}; }}\n"
        unit = clang.parse(text, self.name, self._defines, self._include)
        # What is wrong with these arguments is an error that was not there without them; its
        # statements are missing in the tree.
        known = {(item.location.line, item.spelling) for item in self._errors}
        wrong = [
            item for item in clang.errors(unit) if (item.location.line, item.spelling) not in known
        ]
        if wrong:
            lines = text.count("\n")
            said = [
                item.spelling
                if item.location.line >= lines
                else f"in line {item.location.line}, {item.spelling}"
                for item in wrong[:5]
            ]
            raise SourceError(f"{self.name}: {name} cannot be instantiated: {'; '.join(said)}")
        for child in unit.cursor.get_children():
            if child.spelling != "aio_instance":
                continue
            for node in child.walk_preorder():
                if node.kind.name == "DECL_REF_EXPR" and node.spelling == base:
                    return node.referenced
        raise SourceError(f"{self.name}: {name} cannot be instantiated")
