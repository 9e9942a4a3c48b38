"""From programs and µgraphs to the tile IR, and from there to code.

`lowering` evaluates a program by `algebra`, which gives a graph of `values`. `uses` chooses those
that are kept, and `staging` has `writing` fill a buffer with each: a stage of the `ir`. Stages are
simplified (`cutting`, `reindexing`, `tiling`, `ordering`), `grouping` makes kernels of them, and
`merging` has those of one kernel share their indices. `fusing` joins kernels where a processor
gains by it. `cpu` and `pallas` print what comes out; `interpreting` says what it means.
"""
