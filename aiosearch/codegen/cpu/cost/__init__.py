"""Cost models that rank CPU schedules before any is timed: `reduction_cost` of the register tiles
of a reduction, `kernel_cost` of a whole kernel."""
