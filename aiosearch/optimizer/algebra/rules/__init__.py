"""Rewrite rules of tensor programs, by what they rewrite: `products`, `functions`, `scaling`,
`movement`, `rows`. A module registers its rules when it is imported; `simplification` has those
that are always right and are applied at once."""
