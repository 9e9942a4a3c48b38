"""What the console script writes: streams, tables, the live screen, files."""
