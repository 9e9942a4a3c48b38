"""Emitted kernels that stand alone: plain JAX beside them, for wherever they do not run.

Machine code runs where aiosearch is installed, on one kind of processor, for arrays of the types
that it was written for, and has no derivative. A module that is given to somebody else has to run
there all the same. So what replaces `def f(x)` is followed by the program in plain JAX, and by the
choice between both:

    def f(x): ...  # kernels
    def f_plain(x): ...
    f = with_plain(f, f_plain, ["float32[256,512]"], "cpu")

The text of `with_plain` is in the module as well, which needs nothing but jax.
"""

from __future__ import annotations

import re

from ...tensor.terms import walk
from ...tensor.text import parse
from ...tensor.types import ARRAY_NAMES, Place
from ..candidates.jax_source import emit, names

_KERNELS = {"carried(": "cpu", "pallas_call(": "gpu"}
"""Where kernels run, by what calls them."""

HELPER = '''\
def with_plain(kernels, plain, types, platform):
    """`kernels` for arrays of these types on this machine, and `plain` JAX everywhere else."""
    import functools
    import inspect
    import warnings

    batched = jax.custom_batching.custom_vmap(kernels)
    run = jax.custom_jvp(batched)
    # Kernels have no derivative and no batches: those are of the plain function.
    run.defjvp(lambda values, tangents: jax.jvp(plain, values, tangents))

    @batched.def_vmap
    def run_batch(size, are_batched, *arrays):
        axes = [0 if is_batched else None for is_batched in are_batched]
        results = jax.vmap(plain, axes)(*arrays)
        return results, jax.tree.map(lambda _: True, results)

    @functools.cache
    def kernels_run():
        try:
            if jax.default_backend() != platform:
                raise RuntimeError(f"they are for {platform}, and here is {jax.default_backend()}")
            shapes = [name.rstrip("]").split("[") for name in types]
            jax.eval_shape(
                kernels,
                *(
                    jax.ShapeDtypeStruct([int(size) for size in shape.split(",") if size], dtype)
                    for dtype, shape in shapes
                ),
            )
        except Exception as error:
            message = f"{plain.__name__} runs in the place of kernels: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=3)
            return False
        return True

    @functools.wraps(kernels)
    def call(*args, **named):
        arrays = inspect.signature(kernels).bind(*args, **named).args
        given = [f"{jnp.result_type(x)}[{','.join(map(str, jnp.shape(x)))}]" for x in arrays]
        return run(*arrays) if given == types and kernels_run() else plain(*arrays)

    return call
'''


def fallback(source: str, function: str, program_text: str) -> str:
    """What follows the functions of `source`, so that `function` runs everywhere.

    Empty where it does so by itself, and where the program is of kernels and blocks, for which
    plain JAX has no words. The program is what the source computes, as text; what is given back
    needs `HELPER` before it.
    """
    platform = next((place for call, place in _KERNELS.items() if call in source), None)
    if platform is None:
        return ""
    program = parse(program_text)
    if any(term.place not in (Place.DEVICE, Place.ANYWHERE) for term in walk(program.outputs)):
        return ""
    types = [
        f"{ARRAY_NAMES[term.dtype]}[{','.join(map(str, term.shape))}]" for term in program.inputs
    ]
    plain = f"{function}_plain"
    text = emit(program)
    body = text[re.search(r"^def ", text, re.MULTILINE).start() :].strip()  # type: ignore[union-attr]  # every module has a function
    defined = body.replace(f"def {names(program)[0]}(", f"def {plain}(", 1)
    listed = ", ".join(f'"{each}"' for each in types)
    return f'{defined}\n\n\n{function} = with_plain({function}, {plain}, [{listed}], "{platform}")'
