"""What `optimize` hands back: a callable, and its source."""
