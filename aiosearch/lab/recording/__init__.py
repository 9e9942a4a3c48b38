"""Recordings of the tree that a search walked and of what each node took."""
