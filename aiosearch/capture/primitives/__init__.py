"""Rules that read JAX primitives as operators of the tensor language, one module per kind;
`registry.reads` declares them."""
