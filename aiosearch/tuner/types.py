"""What has no narrower type: trees of arrays, functions of them, and values by parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Pytree: TypeAlias = Any
"""An argument or a result of a JAX function: an array, a tracer, the type of one, or a tree."""
Function: TypeAlias = Callable[..., Any]
"""A function of JAX arrays, or one that makes types of them."""
Configuration: TypeAlias = dict[str, Any]
"""Values by the parameters, or the sites, that take them."""
Options: TypeAlias = Mapping[str, Any]
"""The same, to be read only."""
