"""Rewrite rules of tensor programs, by what they rewrite."""
