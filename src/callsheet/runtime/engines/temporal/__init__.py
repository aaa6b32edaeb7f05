"""The Temporal engine: a workflow that drives the machine, workers that carry out its calls, and clients.

In: an order, which is a plan with everything its run is started with. Out: the run's history on a Temporal
server, and from it the same journal that a local run writes. Nothing here is imported unless this engine is
asked for.
"""
