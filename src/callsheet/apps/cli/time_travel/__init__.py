"""Time travel: plays runs back, runs them again from a step, or forks them."""
