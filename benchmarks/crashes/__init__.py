"""Kills and resumes runs: what is run, how it is killed, and what must be true afterwards."""
