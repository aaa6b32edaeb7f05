"""Syntax highlighting of LTP: one table of rules, with outputs for editors, web pages and terminals.

`rules` is the table, made from the parser's keywords; `scan` splits a text by it; `textmate` exports it as a
TextMate grammar; `pygments_lexer` is a lexer for Pygments.
"""
