"""Checks the proof before a run: random plans that it accepts are run in worlds with marked secrets."""
