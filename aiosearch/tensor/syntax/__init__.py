"""The text and JSON formats of programs: `tokens`, `parser`, `printer`, `json_schema`, checks."""
