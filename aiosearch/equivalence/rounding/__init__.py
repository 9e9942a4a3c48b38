"""Emulated floating-point arithmetic, and bounds on the noise of its rounding."""
