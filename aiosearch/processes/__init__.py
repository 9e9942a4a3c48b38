"""Child processes: starting or forking them, exchanging frames with them, and ending them."""
