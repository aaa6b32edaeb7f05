"""The command line: a lazy group of commands, one file each."""
