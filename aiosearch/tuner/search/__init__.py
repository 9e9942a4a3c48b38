"""How a space is searched: algorithms, cost models, the state of a search, recorded spaces."""
