"""Secrets: what is one, how it is sealed before it is written, and what is shown in its place.

In: values, and what is known of secrets. Out: the same values with boxes in the place of what is secret, and
back for who has the key. Pure: where the key is kept is not known here.
"""
