"""Names for JSON as Python has it, whose depth the types of Python cannot say."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonValue: TypeAlias = Any
"""What a JSON text may hold: an object, a list, text, a number, a truth value, or None."""

Document: TypeAlias = dict[str, JsonValue]
"""A JSON object: a report, the facts of an answer, a table of settings."""
