"""A simulation of runs, store, processes and faults under one seed, without a thread, a process or a wait."""
