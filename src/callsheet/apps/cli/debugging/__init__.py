"""Runs a plan under a debugger: one model, which the terminal and the Debug Adapter Protocol share."""
