"""The jaxpr of a function that stands in a module's text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence

import jax

from ...capture.jax_types import Function, Leaf
from ..inputs.objects import UserObject

_TYPE = re.compile(r"(\w+)\[([\d, ]*)\]")


def jaxpr(source: str, name: str, types: Sequence[str]) -> str:
    """What jax makes of it; where it takes something made beforehand, of what is left for a call.

    Runs the module's text, and raises what that or tracing raises.
    """
    module: dict[str, UserObject] = {"__name__": name}
    exec(compile(source, f"<{name}>", "exec"), module)
    specs = list(map(_spec, types))
    with jax.enable_x64(any("64" in type_text for type_text in types)):
        run = module.get(f"{name}_packed")
        if run is None:
            return str(jax.make_jaxpr(module[name])(*specs))
        pack, names = module[f"{name}_pack"], _parameters(module[name])
        arguments = dict(zip(names, specs, strict=True))
        packed = jax.eval_shape(
            pack, *(arguments.pop(type_text) for type_text in _parameters(pack))
        )
        return str(jax.make_jaxpr(run)(*arguments.values(), *packed))


def _parameters(function: Function) -> list[str]:
    return list(inspect.signature(function).parameters)


def _spec(text: str) -> Leaf:
    match = _TYPE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no type")
    shape = tuple(int(size) for size in match[2].split(",") if size.strip())
    return jax.ShapeDtypeStruct(shape, match[1])  # type: ignore[no-untyped-call]  # jax's
