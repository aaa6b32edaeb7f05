"""Time travel: runs that are played back, run again from a step, or forked."""
