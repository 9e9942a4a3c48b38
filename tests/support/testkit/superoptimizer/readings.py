"""A program in the classes of a search's tables: which step makes each of its tensors."""

from __future__ import annotations

from dataclasses import dataclass

from testkit.superoptimizer.block_tiles import Tiles
from testkit.superoptimizer.index_layout import OutsideError
from testkit.superoptimizer.recipes import Recipe, Recipes, Reduced
from testkit.superoptimizer.table_lookup import Lookup

from aiosearch.superoptimizer.derive.derivations import Derivation
from aiosearch.superoptimizer.enumeration.block_graphs import DerivedBlockGraph
from aiosearch.superoptimizer.enumeration.kernel_graphs import Skeletons
from aiosearch.tensor import Program, Term


@dataclass(frozen=True)
class Made:
    """How a tensor of the device comes about: an operator, or a store of a block graph."""

    step: Derivation
    graph: DerivedBlockGraph | None = None


class Reading:
    """Finds the classes of a program; raises OutsideError or MissedError."""

    def __init__(self, lookup: Lookup, skeletons: Skeletons) -> None:
        self._lookup = lookup
        self._skeletons = skeletons
        self._tables = lookup.tables
        self.made: dict[int, Made] = {}
        self._classes: dict[Term, int] = {}
        self.relaid = False
        """Whether partial sums lie elsewhere, and so its grids are others."""

    def read(self, program: Program) -> list[int]:
        recipes = Recipes(program, self._tables.reference, self._tables.space)
        inputs = zip(program.inputs, self._tables.inputs, strict=True)
        self._classes = dict(inputs)
        device = [*recipes.device()]
        wanted = [value.form for value in self._tables.reference.outputs]
        if [recipes.forms[term] for term in program.outputs] != wanted:
            raise OutsideError("equal by more than the axioms")
        for term, recipe in device:
            if isinstance(recipe, Recipe):
                self._kernel(recipe)
            else:
                self._operator(term, recipe)
        return [self._classes[term] for term in program.outputs]

    def _operator(self, term: Term, recipe: Reduced) -> None:
        operands = tuple(self._classes[one] for one in recipe.operands if one in self._classes)
        if recipe.nothing:
            (self._classes[term],) = operands
            return
        step = self._lookup.step(recipe, operands)
        (found,) = self._lookup.after(step)
        self._classes[term] = found
        if found not in self._tables.available:
            self.made.setdefault(found, Made(step))

    def _kernel(self, recipe: Recipe) -> None:
        tiles = Tiles(self._lookup, self._skeletons, recipe, self._classes)
        graph = tiles.graph()
        self.relaid |= tiles.relaid
        for (_, term), tile in zip(recipe.outputs, graph.outputs, strict=True):
            step = Derivation("store", (tile,))
            (found,) = self._lookup.after(step)
            self._classes[term] = found
            if found not in self._tables.available:
                self.made.setdefault(found, Made(step, graph))
