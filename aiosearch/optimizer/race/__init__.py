"""Races: which candidate is right on the device and fastest."""
