"""Angles of many turns, in vectors: only where there is one is more done than a comparison."""

from __future__ import annotations

from .turning import ONE, TABLE, table, turned
from .writing import Body, Value

FAR = 2.0**20
"""Up to here angles are left as they are."""

PARTS = ("double", "double", "i64")


def brought_near(x: Value) -> tuple[Value, Value, Value]:
    """An angle, below an eighth of a turn if it was far; what it lacks; and quarters of a turn."""
    body = x.body
    text, calls = turned(body.fused)
    body.declarations |= calls
    body.helpers |= {TABLE: table(), ONE: text}
    called = ONE if body.lanes == 1 else f"{ONE}.v{body.lanes}"
    if body.lanes > 1:
        body.helpers[called] = _each(body, called)
    return _where_needed(x, (x > FAR) | (x < -FAR), called)


def _where_needed(x: Value, far: Value, called: str) -> tuple[Value, Value, Value]:
    """Calls what is slow where any angle is far, and takes what it gives for those."""
    body = x.body
    near = x, body.number(0.0, "double"), body.number(0, "i64")
    body.lines += [f"  br i1 {body.some(far).text}, label %far, label %near", "far:"]
    kind = _kind(body)
    found = body.line("double", f"call {kind} {called}({x.kind} {x.text})").text
    parts = [
        body.select(far, body.line(one.element, f"extractvalue {kind} {found}, {number}"), one)
        for number, one in enumerate(near)
    ]
    body.lines += ["  br label %near", "near:"]
    angle, tail, turns = (
        body.merged(one, "entry", part, "far") for one, part in zip(near, parts, strict=True)
    )
    return angle, tail, turns


def _each(body: Body, name: str) -> str:
    """The text of the function of a vector: one angle after the other."""
    wide, one = _kind(body), _kind(Body(1, body.fused))
    kinds = [(number, part, body.kind(part)) for number, part in enumerate(PARTS)]
    return "\n".join([
        f"define internal {wide} {name}({body.kind('double')} %x) noinline cold {{",
        "entry:",
        "  br label %next",
        "next:",
        "  %i = phi i32 [ 0, %entry ], [ %j, %next ]",
        *(f"  %v{k} = phi {kind} [ poison, %entry ], [ %w{k}, %next ]" for k, _, kind in kinds),
        f"  %angle = extractelement {body.kind('double')} %x, i32 %i",
        f"  %turned = call {one} {ONE}(double %angle)",
        *(f"  %p{k} = extractvalue {one} %turned, {k}" for k, _, _ in kinds),
        *(f"  %w{k} = insertelement {kind} %v{k}, {part} %p{k}, i32 %i" for k, part, kind in kinds),
        "  %j = add i32 %i, 1",
        f"  %more = icmp ult i32 %j, {body.lanes}",
        "  br i1 %more, label %next, label %done",
        "done:",
        f"  %r0 = insertvalue {wide} poison, {kinds[0][2]} %w0, 0",
        f"  %r1 = insertvalue {wide} %r0, {kinds[1][2]} %w1, 1",
        f"  %r2 = insertvalue {wide} %r1, {kinds[2][2]} %w2, 2",
        f"  ret {wide} %r2",
        "}",
        "",
    ])  # fmt: skip


def _kind(body: Body) -> str:
    return f"{{ {', '.join(map(body.kind, PARTS))} }}"
