"""`callsheet serve`: the HTTP API under `/v1`, and the files of the web viewer.

In: requests. Out: JSON, event streams, pages; every error as problem+json with diagnostics. Plans are handled
by `apps.operations`, runs by `apps.hosting`.
"""
