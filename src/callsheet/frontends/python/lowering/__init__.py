"""Functions in the core form as the blocks, calls and computations of a plan."""
