"""What `optimize` hands back: `Optimized`, a callable, and its source."""
