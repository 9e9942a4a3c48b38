"""The journal that makes a search resumable: its records, its file, writing and reading."""
