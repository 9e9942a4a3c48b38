"""Explorers: how the tree is walked, and how its open subtrees, paths and keys are represented."""
