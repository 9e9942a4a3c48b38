"""Lowering: from a program to stages of the tile IR."""
