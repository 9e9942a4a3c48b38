"""Simulated searches: the engine's own code on a virtual clock."""
