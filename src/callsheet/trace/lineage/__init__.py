"""Exact data lineage of a run: what each value was made of, by which step, at which event."""
