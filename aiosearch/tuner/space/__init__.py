"""Spaces of choices: sites, programs that sample at them, traces, and what hardware can do."""
