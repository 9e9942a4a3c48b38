"""Messages between the host and its workers, and how problems and solutions are encoded in them."""
