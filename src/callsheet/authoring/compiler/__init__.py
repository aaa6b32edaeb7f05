"""Compiles a goal to a checked plan: the prompt, the constraint on the answer, and its processing."""
