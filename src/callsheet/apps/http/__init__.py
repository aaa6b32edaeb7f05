"""`callsheet serve`: the HTTP API under `/v1`, and the files of the web viewer.

In: requests. Out: JSON, streams of events, pages; every mistake as problem+json with diagnostics. Nothing is
decided here: plans are read by `apps.operations`, runs are carried by `apps.hosting`.
"""
