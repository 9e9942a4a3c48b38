"""From a JAX function to a verified, measured, faster one."""
