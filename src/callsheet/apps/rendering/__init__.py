"""How values, times, questions and doubts are worded for people, in every application.

In: values and what is known of a run. Out: lines of text. Nothing is printed here, and nothing in a line can
move a terminal's cursor.
"""
