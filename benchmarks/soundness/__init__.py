"""Whether the proof before a run holds: random plans that it accepts, run in worlds with marked secrets."""
