"""Declarations of the tensor language's operators; importing a module registers its operators."""
