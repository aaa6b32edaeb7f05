"""Renders values, times, questions and calls in doubt as text, the same in every application.

In: values, questions, events. Out: lines of text without terminal control sequences. Nothing is printed.
"""
