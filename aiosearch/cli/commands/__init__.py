"""The commands of the console script: a module for each, with its flags and `run(arguments)`.

What is slow to import, or long, is in `runs`.
"""
