"""Passes from tile IR to tile IR: fusion, index splitting, scratch layout."""
