"""Candidates: the sources, in JAX or as kernels, that could run in the place of a program.
`CandidateGenerator` writes them, in a process of its own (`generation_process`)."""
