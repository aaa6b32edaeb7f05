"""Generates pages of the documentation from the tables of the code.

python -m scripts.reference          write them to docs/reference
"""
