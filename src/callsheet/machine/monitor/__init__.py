"""What a policy says while a run goes on: labels of all values, and each call judged before it leaves.

In: what the machine does, hook by hook. Out: labels, questions that need a yes, or the end of the run. A run
without a policy has no monitor. Pure; everything follows from the program and the events in their order.
"""
