"""`callsheet labels`: lists and edits the labels of data that runs have written."""
