"""The host's side of measuring: the executor, its device and the processes that it owns."""
