"""Static analysis and rewriting of tensor programs: cost, overflow, symbolic sizes."""
