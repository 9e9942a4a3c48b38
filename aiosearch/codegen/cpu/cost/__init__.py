"""Cost models that rank CPU schedules before any is timed."""
