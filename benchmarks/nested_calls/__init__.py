"""Converts gold sequences of nested tool calls to plans, and checks that the plans give the gold answers."""
