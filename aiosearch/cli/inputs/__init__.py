"""What a user names on the command line: problems, programs, functions and settings."""
