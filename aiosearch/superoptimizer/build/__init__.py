"""Programs built of what the enumeration found."""
