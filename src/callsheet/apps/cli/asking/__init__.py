"""Commands that ask a run what happened in it, and why: why, at, diff, blame."""
