"""A plan from what a client's model did: the calls of a session or an agent, with the data between them.

Five modules are the way of a plan. `recorded_calls` reads the runs. `candidates` makes plans of them, by
`patterns` (which calls are loops, with `pages`) and `writer` (the lines of calls and loops). `solving` finds
what gives an argument, in all runs at once, of what is known at its place (`scopes`). `stops` adds where the
plan stops: conditions of single results (`guards`), and of items that words may leave out (`outliers`).
`api/distillation.py` takes the first plan that repeats the runs.

The words of the user are English ones. `wording` has those of grammar. What they say of items is read in
`rules` and `picking` if several runs show what was chosen, in `choices` and `item_tests` if the words alone
decide it.
"""
