"""A grid: its public facts, and the parameters that are protected."""
