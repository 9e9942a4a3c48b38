"""Gradients within a limit of memory: what loops keep for the way back, and what is computed again.

Problem: the derivative of a loop over layers keeps what each layer computed until the way back
needs it. With many layers that is most of the memory; computing some of it again takes time.

Method. Three policies, by how much they compute again: keep everything, keep what products give, or
keep nothing but what each turn begins with. The function is traced, the body of every `scan` in it
is run under the policy, and the gradient is compiled: what it needs beside arguments and results is
what XLA plans (`memory_analysis`), not what a model says. The first policy that fits is taken.

`shard_gradient` does that on a mesh: each policy is planned with layouts for all values, with the
stacks that loops keep on the devices or, at the price of the way there and back, in the memory of
the host; of those that fit, the fastest is taken.

Example, a loop of layers `x + silu(tanh(x @ w)) @ v`: everything is four arrays for each layer,
products are two, and what a turn begins with is x alone.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import jax
from jax import lax
from jax.extend import core
from msgspec import Struct

from ..arguments import is_whole
from ..capture.jax_types import Atom, Function, Leaf, PyTree
from .errors import PlanError
from .layouts import MeshCosts
from .rows.blocked import memory_of
from .rows.equations import Equation, PrimitiveParams, tracing
from .rows.frames import bind
from .sharding import ShardingPlan, plan_layouts


class KeepPolicy(enum.StrEnum):
    """What a loop keeps for the way back."""

    EVERYTHING = "keeps everything"
    PRODUCTS = "keeps products"
    STARTS = "keeps what a turn begins with"


class PolicyTrial(Struct, frozen=True):
    """A policy that was compiled, and bytes that it needs beside arguments and results."""

    policy: KeepPolicy
    bytes: int


class GradientPlan:
    """`jax.value_and_grad` of a function, as `fit_gradient` found it to fit."""

    def __init__(
        self, compiled: Function, policy: KeepPolicy, tried: tuple[PolicyTrial, ...]
    ) -> None:
        self._compiled = compiled
        self.policy = policy
        self.tried = tried
        """Those that were compiled, the one that is taken last."""

    @property
    def bytes(self) -> int:
        """What it needs beside arguments and results, as XLA plans it."""
        return self.tried[-1].bytes

    def __call__(self, *args: PyTree) -> PyTree:
        return self._compiled(*args)

    def __repr__(self) -> str:
        return f"<gradient that {self.policy}, {self.bytes:,} bytes>"


def fit_gradient(
    function: Function, *args: PyTree, memory: int, argnums: int | Sequence[int] = 0
) -> GradientPlan:
    """The value and the gradient of a function, that compute as little again as memory allows.

    `memory` is bytes beside arguments and results. Raises PlanError where no policy fits, with what
    the least of them needs.
    """
    _require_bytes(memory)
    tried: list[PolicyTrial] = []
    for policy in KeepPolicy:
        with tracing():
            limited = keeping(function, policy, *args)
            gradient = jax.jit(jax.value_and_grad(limited, argnums=argnums))
            lowered = gradient.lower(*args)
        compiled = lowered.compile()
        tried.append(PolicyTrial(policy, memory_of(compiled).temporary))
        if tried[-1].bytes <= memory:
            return GradientPlan(gradient, policy, tuple(tried))
    least = min(tried, key=lambda trial: trial.bytes)
    raise PlanError(
        f"no gradient fits {memory:,} bytes: the least is {least.bytes:,}, which {least.policy}; "
        "allow more, or run smaller batches"
    )


class ShardedTrial(Struct, frozen=True):
    """A way to compute a gradient on a mesh, its seconds by the model, and bytes on a device."""

    policy: KeepPolicy
    offloads: bool
    """Whether what loops keep is in the memory of the host."""
    seconds: float
    bytes: int


class ShardedGradient:
    """A value and gradient on a mesh, as `shard_gradient` found it to fit."""

    def __init__(self, plan: ShardingPlan, chosen: ShardedTrial, tried: tuple[ShardedTrial, ...]):
        self.plan = plan
        self.chosen = chosen
        self.tried = tried
        """Every way that was planned, the fastest first."""

    def run(self, devices: Sequence[jax.Device]) -> Function:
        """A jitted function that gives the value and the gradient, on these devices."""
        return self.plan.run(devices)

    def __repr__(self) -> str:
        away = ", on the host" * self.chosen.offloads
        return f"<gradient on a mesh that {self.chosen.policy}{away}: {self.chosen.bytes:,} bytes>"


LIMITS = (1.0, 0.5, 0.25)
"""Which shares of the memory are tried for arguments and results."""


def shard_gradient(
    function: Function,
    *args: PyTree,
    mesh: Sequence[int],
    memory: int,
    argnums: int | Sequence[int] = 0,
    costs: MeshCosts | None = None,
    devices: Sequence[jax.Device] | None = None,
    seconds: float = 2.0,
) -> ShardedGradient:
    """The value and the gradient of a function on a mesh, the fastest way that fits the memory.

    - `memory`: bytes that a device may hold, arguments and results included.
    - `devices`: where it will run. With them every way is compiled until one fits by what XLA
      plans; without them it fits by an estimate.
    - `seconds`: for how long layouts within the limit are improved, for each way.

    What loops keep for the way back, what is computed again, what is moved to the host, and how all
    of it is divided are chosen together. Raises PlanError where nothing fits.
    """
    _require_bytes(memory)
    ways: list[tuple[ShardingPlan, ShardedTrial]] = []
    refused: PlanError | None = None
    for policy in KeepPolicy:
        with tracing():
            gradient = jax.value_and_grad(keeping(function, policy, *args), argnums=argnums)
        seen: set[float] = set()
        for share in LIMITS:
            limit = int(memory * share)
            try:
                plan = plan_layouts(
                    gradient, args, mesh, costs or MeshCosts(), limit, seconds, results=True
                )
            except PlanError as error:
                refused = error
                break
            if plan.seconds in seen:
                continue
            seen.add(plan.seconds)
            for way in filter(None, (plan, plan.with_offload())):
                trial = ShardedTrial(policy, bool(way.offloaded), way.seconds, way.device_bytes)
                ways.append((way, trial))
    ways.sort(key=lambda way: way[1].seconds)
    tried: list[ShardedTrial] = []
    for plan, trial in ways:
        if devices is not None:
            run: Leaf = plan.run(devices)  # a jitted function, which has no type of its own
            held = memory_of(run.lower(*args).compile())
            size = held.arguments + held.results + held.temporary
            trial = ShardedTrial(trial.policy, trial.offloads, trial.seconds, size)
        tried.append(trial)
        if trial.bytes <= memory:
            return ShardedGradient(plan, trial, tuple(tried))
    if not tried and refused is not None:
        raise refused
    least = min(tried, key=lambda trial: trial.bytes)
    raise PlanError(
        f"no gradient fits {memory:,} bytes on each device: the least is {least.bytes:,}, which "
        f"{least.policy}; allow more, use more devices, or run smaller batches"
    )


def _require_bytes(memory: int) -> None:
    if not is_whole(memory) or memory < 1:
        raise PlanError(f"memory must be a number of bytes above 0, not {memory!r}")


def keeping(function: Function, policy: KeepPolicy, *args: PyTree) -> Function:
    """The function, whose loops keep for the way back what the policy says."""
    if policy is KeepPolicy.EVERYTHING:
        return function
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    out = jax.tree_util.tree_structure(shape)

    def limited(*args: PyTree) -> PyTree:
        leaves = jax.tree_util.tree_leaves(args)
        return jax.tree_util.tree_unflatten(out, _run(closed, leaves, policy))

    return limited


def _run(closed: core.ClosedJaxpr, inputs: Sequence[Leaf], policy: KeepPolicy) -> list[Leaf]:
    """Evaluates a jaxpr with loops under the policy; rules of derivatives that users gave stay."""
    jaxpr = closed.jaxpr
    values: dict[core.Var, Leaf] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, inputs, strict=True))

    def read(atom: Atom) -> Leaf:
        return atom.val if isinstance(atom, core.Literal) else values[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        if equation.primitive.name == "scan":
            results = _scan(equation.params, operands, policy)
        elif equation.primitive.name in ("jit", "pjit"):
            results = _run(equation.params["jaxpr"], operands, policy)
        else:
            plain = Equation(equation.primitive, equation.params, (), ())
            results = bind(plain, operands, equation.params)
        values.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _scan(params: PrimitiveParams, operands: Sequence[Leaf], policy: KeepPolicy) -> list[Leaf]:
    constants, carries = params["num_consts"], params["num_carry"]

    def body(*values: Leaf) -> list[Leaf]:
        return _run(params["jaxpr"], values, policy)

    saveable = jax.checkpoint_policies
    products = saveable.dots_saveable if policy is KeepPolicy.PRODUCTS else None
    # Loops are compiled once, so that there is nothing which a compiler could share with a turn.
    checked: Function = jax.checkpoint(body, prevent_cse=False, policy=products)

    def turn(state: list[Leaf], slices: list[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
        results = checked(*operands[:constants], *state, *slices)
        return list(results[:carries]), list(results[carries:])

    final, stacks = lax.scan(
        turn,
        list(operands[constants : constants + carries]),
        list(operands[constants + carries :]),
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*final, *stacks]
