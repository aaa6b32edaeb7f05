"""`callsheet plan`: commands that make plans, keep them in a library, and compare them."""
