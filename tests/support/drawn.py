"""Legal programs of fused kernels drawn at random, by what the tensor language alone says.

Some grow blindly; most start from the reference, are rewritten by what algebra lets one write in
another way, and get custom kernels in place of some parts, and some get a mistake. So many equal
the reference, many nearly do, and only the referee can tell.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TypeAlias

import numpy as np
from testkit.random_mugraphs.algebraic_moves import moved, plain
from testkit.random_mugraphs.fusion import MOST_OUTPUTS, fused, kernels, operators
from testkit.random_mugraphs.layouts import relaid
from testkit.random_mugraphs.mistakes import mistaken
from testkit.random_mugraphs.operators import BINARY, UNARY, sizes
from testkit.random_mugraphs.structure import structure
from testkit.random_mugraphs.unguided import grown

from aiosearch.tensor import Floats, Program, evaluate
from aiosearch.tensor.files import to_json
from aiosearch.tensor.floats import Array
from aiosearch.tensor.programs import BUILTINS, builtin
from aiosearch.tensor.referee import run

MOST_KERNELS = 5
MOST_CUSTOM = 2
MOST_OPERATORS = 9

SIZES = {
    "row": 6, "feature": 8, "column": 10, "hidden": 12, "rank": 4, "head": 4, "key": 12,
    "value": 10, "expert": 4,
}  # fmt: skip
"""Small, no two of one program alike, and none a prime, so that grids and loops split each."""

NAMES = [name for name, own in BUILTINS.items() if own.sizes.keys() <= SIZES.keys()]
"""The built-in programs that have small sizes."""

Draw: TypeAlias = Callable[[Program, Random, int], "Program | None"]

_EXACT = 1e-8
_TRIES = 1000
"""Of one kind of draw, before another has its turn: some references are out of blind reach."""


def small(name: str) -> Program:
    """A built-in program at sizes at which a draw is quickly judged; one row stays one."""
    own = BUILTINS[name].sizes
    return builtin(name, "f32", **{label: SIZES[label] if own[label] > 1 else 1 for label in own})


def drawn(reference: Program, seed: int, most: int = MOST_OPERATORS) -> Iterator[Program]:
    """Legal programs over the reference's inputs, with outputs of its shapes, each once.

    A block graph has at most `most` operators, loads and accumulators included.
    """
    random = Random(seed)
    seen: set[Program] = set()
    while True:
        draw = random.choices(tuple(SHARES), tuple(SHARES.values()))[0]
        for _ in range(_TRIES):
            found = draw(reference, random, most)
            if found is not None and found not in seen and legal(found, reference, most):
                seen.add(found)
                yield found
                break


def legal(program: Program, reference: Program, most: int = MOST_OPERATORS) -> bool:
    """Whether a program has no more than it may of anything, and no kernel's output unused."""
    known = {*UNARY, *BINARY, "fold", *(term.operator.name for term in plain(reference))}
    own, custom = plain(program), kernels(program)
    results = [term for term in program.terms() if term.operator.name == "result"]
    inner = [term for kernel in custom for term in operators(kernel)]
    return (
        len(custom) <= MOST_CUSTOM
        and 1 <= len(custom) + len(own) <= MOST_KERNELS
        and all(len(operators(kernel)) <= most for kernel in custom)
        and all(len(kernel.outputs) <= MOST_OUTPUTS for kernel in custom)
        and len(results) == sum(len(kernel.outputs) for kernel in custom)
        and all(term.operator.name in known for term in own)
        and all(term.operator.name in (*known, "load", "accumulate") for term in inner)
    )


def _guided(reference: Program, random: Random, most: int) -> Program | None:
    """The reference after some moves, with custom kernels in it."""
    program = Program("guided", reference.inputs, reference.outputs)
    for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4, 5, 6, 8))):
        program = moved(program, random)
    return _with_kernels(program, random, most)


def _with_kernels(program: Program, random: Random, most: int) -> Program | None:
    """The program with custom kernels; as many as it takes, if there may be so many."""
    wanted = random.choice((0, 1, 1, 1, 2, 2, 2))
    for made in range(MOST_CUSTOM):
        own = plain(program)
        short = any(term.operator.name == "fold" for term in own)
        if (
            made >= wanted
            and not (short and random.random() < 0.8)
            and made + len(own) <= MOST_KERNELS
        ):
            break
        last = made + 1 >= max(wanted, 1)
        least = len(own) + made + 1 - MOST_KERNELS if last else 1
        found = fused(program, random, most, least)
        if found is None:
            return None
        program = found
    return relaid(program, random) if random.random() < 0.2 else program


def _mistaken(reference: Program, random: Random, most: int) -> Program | None:
    """The same with a mistake: in what is computed, or in how."""
    early = random.random() < 0.4
    begin = mistaken(reference, random) if early else reference
    found = _guided(begin, random, most)
    if found is None or (early and begin == reference):
        return None
    end = found if early else mistaken(found, random)
    return None if end == found and not early else Program("mistaken", end.inputs, end.outputs)


SHARES: dict[Draw, int] = {grown: 3, _guided: 10, _mistaken: 7}
"""How often each kind of draw is made."""


def equal(reference: Program, candidate: Program, seed: int) -> bool:
    """Whether the float64 referee finds the outputs alike, on two draws of the inputs."""
    for inputs, quickly, surely in _expected(reference, seed):
        if not _alike(quickly, _at_once(candidate, inputs)):
            return False
        if not _alike(surely, run(candidate, inputs)):
            return False
    return True


def _at_once(program: Program, inputs: Sequence[Array]) -> list[Array]:
    """All blocks together: quicker than the referee, and it reads literals a little otherwise."""
    with np.errstate(all="ignore"):
        return evaluate(program, Floats(), inputs)


@lru_cache(maxsize=4)
def _expected(reference: Program, seed: int) -> list[tuple[list[Array], list[Array], list[Array]]]:
    """Two draws of the inputs, each with what the reference makes of them, in both ways."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(2):
        inputs = [draw.standard_normal(sizes(term)) for term in reference.inputs]
        found.append((inputs, _at_once(reference, inputs), run(reference, inputs)))
    return found


def _alike(wanted: Sequence[Array], found: Sequence[Array]) -> bool:
    """Finite, and off by a small part of the largest."""
    return all(
        ours.shape == theirs.shape
        and np.isfinite(theirs).all()
        and np.abs(ours - theirs).max() <= _EXACT * np.abs(ours).max()
        for ours, theirs in zip(wanted, found, strict=True)
    )


def main() -> None:
    """Draws so many programs, and says how many equal the reference; saves those on demand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=MOST_OPERATORS)
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    reference = small(asked.name)
    began = time.process_time()
    programs = list(itertools.islice(drawn(reference, asked.seed, asked.most), asked.count))
    right = [program for program in programs if equal(reference, program, asked.seed)]
    seconds = time.process_time() - began
    for kind, own in (("all", programs), *_by_kind(programs).items()):
        found = right if kind == "all" else _by_kind(right).get(kind, [])
        sys.stdout.write(
            f"{asked.name} {kind}: {len(own)} drawn ({_distinct(own)} structures),"
            f" {len(found)} equal ({_distinct(found)} structures)\n"
        )
    sys.stdout.write(f"{asked.name}: {seconds:.1f} CPU seconds\n")
    if asked.save:
        asked.save.write_bytes(b"".join(to_json(program) + b"\n" for program in right))


def _by_kind(programs: Sequence[Program]) -> dict[str, list[Program]]:
    found: dict[str, list[Program]] = {}
    for program in programs:
        found.setdefault(program.name, []).append(program)
    return found


def _distinct(programs: Sequence[Program]) -> int:
    return len({structure(program) for program in programs})


if __name__ == "__main__":
    main()
