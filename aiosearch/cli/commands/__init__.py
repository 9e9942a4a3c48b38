"""The commands of the console script: a module for each, with `run(arguments)`."""
