"""Runs the IR as it stands, threads in step from barrier to barrier: the oracle of lowerings."""
