"""What `aiosearch explain` is asked about, and the steps that it shows."""
