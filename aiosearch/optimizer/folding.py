"""Long lines of a source, folded."""

from __future__ import annotations

from collections.abc import Iterator

WIDTH = 96


def folded(line: str, indent: int = 4) -> list[str]:
    """A line that is too long, opened at its widest outer brackets, cut at the commas in them."""
    if len(line) + indent <= WIDTH:
        return [line]
    opened, closed = _brackets(line)
    if opened < 0:
        return [line]
    lines, parts = [line[: opened + 1]], list(_parts(line[opened + 1 : closed]))
    called = line[opened] == "[" or line[opened - 1 : opened].isidentifier()
    comma = "," if called or len(parts) > 1 else ""
    for part in parts:
        *before, last = folded(part, indent + 4)
        lines.extend(f"    {one}" for one in [*before, f"{last}{comma}"])
    return [*lines, line[closed:]]


def _brackets(line: str) -> tuple[int, int]:
    """Where the widest outer brackets open and close; -1 where there are none."""
    depth, opened, found = 0, -1, (-1, -1)
    for at, letter in enumerate(line):
        if letter in "([":
            opened = at if not depth else opened
            depth += 1
        elif letter in ")]":
            depth -= 1
            if not depth and at - opened > max(1, found[1] - found[0]):
                found = (opened, at)
    return found


def _parts(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()
