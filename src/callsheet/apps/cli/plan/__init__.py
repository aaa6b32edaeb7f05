"""`callsheet plan`: commands that create plans, store them in a library, run and compare them."""
