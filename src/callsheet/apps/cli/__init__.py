"""The command line: a lazy click group, with one module per command."""
