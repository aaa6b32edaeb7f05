"""`callsheet policy …`: the files that say what plans may do."""
