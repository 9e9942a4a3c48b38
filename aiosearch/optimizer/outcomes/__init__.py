"""Outcomes: what is remembered of an optimization (`Answer`, `Evidence`, `Results`), and what is
reported of it (`Report`)."""
