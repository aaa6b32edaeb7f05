"""Plans of version 2 as Python programs."""
