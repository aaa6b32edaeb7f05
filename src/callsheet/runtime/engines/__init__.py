"""Engines of others that carry runs over several machines: the same machine, driven by their histories."""
