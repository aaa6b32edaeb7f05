"""Turns goals into plans with a language model: prompts, and the parsing of its answers."""
