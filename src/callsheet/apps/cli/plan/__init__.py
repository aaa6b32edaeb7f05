"""`callsheet plan`: the commands that make plans, keep them in a library, and compare them."""
