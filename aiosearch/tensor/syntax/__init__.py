"""The text and JSON formats of programs: `tokens`, `parser`, `printer`, `literals`, checks."""
