"""Declarations of the operators; importing a module registers its operators in `OPERATORS`."""
