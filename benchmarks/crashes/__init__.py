"""Runs that are killed and resumed: what is run, how it is killed, and what must be true afterwards."""
