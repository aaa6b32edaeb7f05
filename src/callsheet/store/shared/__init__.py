"""Storage that several machines share: plans, policies, labels and large values, in PostgreSQL.

In: an address, from `$CALLSHEET_STORE`. Out: what a single machine stores in files. Not loaded if no address
is given.
"""
