"""Programs to cut into pieces, and what may be cut from them by the plainest definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from aiosearch.superoptimizer.compose.subprograms import Subprogram
from aiosearch.tensor import Program, Term, apply, tensor, walk
from aiosearch.tensor.terms import bytes_of

FREE = ("input", "literal", "transpose", "reshape", "broadcast", "slice", "concatenate")

_MOST_OUTPUTS = 3


def drawn_graph(seed: int, most: int = 7) -> Program:
    """Operators on square matrices, with moves between them and values used more than once."""
    random = Random(seed)
    inputs = tuple(tensor(f"X{number}", "f32", (4, 4)) for number in range(random.randint(1, 3)))
    pool: list[Term] = list(inputs)
    made: list[Term] = []
    count = random.randint(1, most)
    while len(made) < count:
        operands = [_moved(random, random.choice(pool[-4:])) for _ in range(2)]
        name = random.choice(("add", "mul", "matmul", "exp", "tanh", "sub"))
        one = name in ("exp", "tanh")
        term = apply(name, *operands[: 1 if one else 2])
        if term not in made:
            made.append(term)
            pool.append(term)
    used = {argument for term in pool for argument in term.arguments}
    used |= {argument for term in used for argument in term.arguments}
    outputs = [term for term in made if term not in used or random.random() < 0.15]
    return Program(f"drawn_{seed}", inputs, tuple(_moved(random, term) for term in outputs))


def _moved(random: Random, term: Term) -> Term:
    return apply("transpose", term, axes=(1, 0)) if random.random() < 0.2 else term


def program(*outputs: Term) -> Program:
    """Of all the inputs that there are."""
    inputs = [term for term in walk(outputs) if term.operator.name == "input"]
    return Program("program", tuple(inputs), outputs)


def model(layers: int) -> Program:
    """Attention and a gated mlp in each layer: twenty operators."""
    x = tensor("X", "f32", (8, 16))
    for number in range(layers):
        q, k, v, o, gate, up, down = (
            tensor(f"{name}{number}", "f32", (16, 16)) for name in "qkvogud"
        )
        norm = apply("rms_norm", x)
        scores = (norm @ q) @ apply("transpose", norm @ k, axes=(1, 0))
        e = apply("exp", scores - apply("max", scores, axes=(1,), keep=True))
        x = x + ((e / apply("sum", e, axes=(1,), keep=True)) @ (norm @ v)) @ o
        norm = apply("rms_norm", x)
        x = x + (apply("silu", norm @ gate) * (norm @ up)) @ down
    return program(x)


def operators(piece: Subprogram) -> frozenset[Term]:
    """The operators of the whole program that a piece stands for."""
    return frozenset(
        term
        for term in walk(piece.outputs, stop=piece.inputs)
        if term not in piece.inputs and term.operator.name not in FREE
    )


def names(pieces: Iterable[Subprogram]) -> list[str]:
    """The operators of each piece's own program, in words."""
    return sorted(" ".join(called(piece.program)) for piece in pieces)


def called(piece: Program) -> list[str]:
    return [term.operator.name for term in piece.terms() if term.operator.name not in FREE]


def traffic(piece: Program) -> float:
    """A price: a kernel's start, and the bytes that it has to move."""
    sizes = [bytes_of(term.type) for term in (*piece.inputs, *piece.outputs)]
    return 1000 + float(sum(size for size in sizes if isinstance(size, int)))


class OperatorGraph:
    """What computes something in a program, and which of it takes what else gives."""

    def __init__(self, program: Program) -> None:
        self.operators = [term for term in program.terms() if term.operator.name not in FREE]
        self.needs = {term: self._sources(term.arguments) for term in self.operators}
        self.returned = self._sources(program.outputs)

    def _sources(self, terms: tuple[Term, ...]) -> frozenset[Term]:
        found: set[Term] = set()
        for term in terms:
            free = term.operator.name in FREE
            found |= self._sources(term.arguments) if free else {term}
        return frozenset(found)

    def above(self, term: Term) -> set[Term]:
        """All that a term is computed from."""
        return {below for one in self.needs[term] for below in (one, *self.above(one))}

    def connected(self, members: frozenset[Term]) -> bool:
        found = {next(iter(members))}
        for _ in members:
            found |= {
                one
                for one in members
                if self.needs[one] & found or any(one in self.needs[other] for other in found)
            }
        return found == members

    def convex(self, members: frozenset[Term]) -> bool:
        """Whether nothing outside is below one member and above another."""
        return not any(
            between not in members and self.above(between) & members
            for one in members
            for between in self.above(one)
        )

    def outputs(self, members: frozenset[Term]) -> set[Term]:
        taken = {one for term in self.operators if term not in members for one in self.needs[term]}
        return {one for one in members if one in taken or one in self.returned}

    def piece(self, members: frozenset[Term], most: int) -> bool:
        """Whether these may run as one."""
        few = len(self.outputs(members)) <= _MOST_OUTPUTS or len(members) == 1
        return len(members) <= most and few and self.connected(members) and self.convex(members)

    def runs(self, blocks: list[frozenset[Term]]) -> bool:
        """Whether there is an order in which each block finds what it needs."""
        done: set[Term] = set()
        left = list(blocks)
        while left:
            ready = [
                block for block in left if all(self.needs[one] <= done | block for one in block)
            ]
            if not ready:
                return False
            done |= ready[0]
            left.remove(ready[0])
        return True


def partitions(members: list[Term]) -> Iterator[list[frozenset[Term]]]:
    """Every way to put these into blocks."""
    if not members:
        yield []
        return
    first, *rest = members
    for blocks in partitions(rest):
        yield [frozenset({first}), *blocks]
        for place, block in enumerate(blocks):
            yield [*blocks[:place], block | {first}, *blocks[place + 1 :]]
