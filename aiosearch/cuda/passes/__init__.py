"""From barriers to parallel loops: analyses with their proofs, and rewrites that rest on them."""
