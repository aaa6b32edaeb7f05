"""Commands that inspect recorded runs: why, at, diff, blame."""
