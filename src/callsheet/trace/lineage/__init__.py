"""Exact data lineage of a run: from what each value was made, by which step, at which event."""
