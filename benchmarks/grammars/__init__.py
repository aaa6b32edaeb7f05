"""Checks with random sentences that the grammars of plans and the parser agree, and times the grammars."""
