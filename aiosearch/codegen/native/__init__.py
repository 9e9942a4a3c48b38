"""Machine code in this process: `compiler` turns LLVM IR into object code and loads it, `handler`
is what XLA calls, `guarded_run` tries code out between guard pages, `jax_call` makes a JAX function
of it.
"""
