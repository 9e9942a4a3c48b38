"""The text format and the JSON format of tensor programs: tokens, parser, printer, checks."""
