"""Experiments on ways to distribute a search: races, recordings, and replays on a virtual clock."""
