"""What the machines of a fleet share: plans, policies, labels and large values, in one PostgreSQL database.

In: an address, as `$CALLSHEET_STORE` has it. Out: the same things that one machine keeps in files. Nothing
here is loaded where no address is given.
"""
