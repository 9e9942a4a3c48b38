"""From the tile IR to LLVM IR for the processor at hand.

From the outside in: `printer` prints a module, `kernels` a kernel as a function of its blocks,
`blocks` what a block does in `passes`, `stages` a stage's loops around blocks of `registers`.
`folds` says what those come to, by `rowfolds`, `lanefolds` or `matrixfolds`, which asks a
`matrixunit`; long ones in `pieces`, each turn of a loop that is `unrolling` by `steps` or `dots`.
`elements` computes one expression, `access` and `memory` read and write, `locating` finds out
where; `arithmetic` and `vectors` make instructions of it, `writer` notes them.

Before, `preparing` changes the kernel as its `schedule` asks, `storages` gives each buffer its
place, and `shape` lays a stage into registers. `packed` and `panels` are about inputs that are laid
out anew, in `squares` where rows become columns; what is `turned` is so by kernels of its own.
`choices` lists the schedules that are worth a trial: `foldings` has parameters and constraints for
those of sums, with values that are `offered`, if there is room for what is `kept`; `predicting` and
`sumtimes` put them in order. `words` tells one to people.
"""
