"""Syntax highlighting of LTP: one table of rules, with outputs for editors, web pages and terminals.

`rules` is the table, from the words that the parser knows; `scan` reads a text by it; `textmate` writes it
as a TextMate grammar; `pygments_lexer` gives it to Pygments.
"""
