"""Enforces a policy on a run: tracks the label of every value and judges each call before it is issued.

In: what the machine does, by hooks. Out: labels, approvals to ask for, or the end of the run. A run without a
policy has no monitor. Pure: everything follows from the program and the sequence of events.
"""
