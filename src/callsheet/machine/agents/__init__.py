"""Turn-by-turn operations: an agent's loop, and the rounds of a refinement, a critique or a consensus.

In: the arguments of a step, the answers of a model and the outcomes of its calls. Out: the next question or
the next calls. Each turn is a command and an event, so it is resumed, counted and shown like any other call.
"""
