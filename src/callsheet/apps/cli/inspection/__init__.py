"""Commands that explain what happened in a run: why, at, diff, blame."""
