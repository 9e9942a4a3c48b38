"""From programs and µgraphs to the tile IR, and from there to code.

    lower      evaluates a program into a graph of values, chooses those that are stored, and writes
               a stage of the tile IR for each
    ir         what a kernel computes, element by element; `ir.interpreter` says it with NumPy
    passes     simplify stages, let those of one kernel share their indices, and fuse kernels
    schedule   spaces of what is free, and plans that choose a schedule for each kernel of a module
    cpu        prints kernels as LLVM IR by a schedule, with the builder and functions of `llvm`
    pallas     prints them as Pallas text by a tiling, for a GPU
    native     compiles LLVM IR, tries it out between guard pages, and has XLA call it

See docs/why/kernels.md, which follows one program through all of it.
"""
