"""`callsheet labels`: the labels of what runs have left, looked at and corrected."""
