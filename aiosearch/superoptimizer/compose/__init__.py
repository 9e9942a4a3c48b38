"""Larger programs, composed of pieces that are searched one by one."""
