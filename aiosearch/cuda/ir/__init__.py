"""The parallel IR: kernels whose barriers and parallelism stay visible until the last step."""
