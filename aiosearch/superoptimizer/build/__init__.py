"""Programs built of what enumeration found."""
