"""`callsheet policy`: commands for policy files."""
