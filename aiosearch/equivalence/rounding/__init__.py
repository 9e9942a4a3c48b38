"""Emulated floating-point arithmetic (`machine`), and bounds on its rounding noise (`noise`)."""
