"""Pages of the documentation that are made from the code's own tables.

python -m scripts.reference          write them into docs/reference
"""
