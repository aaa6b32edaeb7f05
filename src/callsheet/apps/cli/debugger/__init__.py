"""The terminal debugger: a run looked at step by step, with keys."""
