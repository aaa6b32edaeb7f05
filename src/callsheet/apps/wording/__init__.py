"""How callsheet says things to people, whichever face says them: values, times, questions, doubts.

In: values and what is known of a run. Out: lines of text. Nothing is printed here, and nothing in a line can
move a terminal's cursor.
"""
