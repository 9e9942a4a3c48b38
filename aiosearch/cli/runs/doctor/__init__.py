"""What `aiosearch doctor` looks at on this machine, and how it is reported."""
