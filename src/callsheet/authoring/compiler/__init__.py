"""From a goal to a checked plan: what a model is told, what it may answer, and what becomes of its answer."""
