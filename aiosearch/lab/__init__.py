"""Experiments on ways to distribute a search: races, recordings, and replays on a virtual clock.

`Arm` is what is compared, `ArmContest` runs arms in turns, `recording` writes down what each node
of a tree took, and `Replay` runs a recording with any number of workers.
"""
