"""`callsheet labels`: lists and corrects the labels of what runs have written."""
