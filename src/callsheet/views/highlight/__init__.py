"""LTP text in colours: one table of rules, and what is made of it for editors, pages and terminals.

`rules` is the table, from the words that the parser knows; `scan` reads a text by it; `textmate` writes it
as a TextMate grammar; `pygments_lexer` gives it to Pygments.
"""
