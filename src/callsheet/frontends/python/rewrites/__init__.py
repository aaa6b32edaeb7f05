"""Python as simpler Python: what a plan cannot say, said with what it can."""
