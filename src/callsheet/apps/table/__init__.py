"""The table of operations: what the HTTP API and the MCP server offer, each said once.

An `Operation` is a typed function with the model of its arguments and the type of its result, and with how
each interface presents it. Endpoints, tools, schemas and the OpenAPI document follow from it. In: a context
(a host, a library, who asks) and arguments. Out: a result. Operations without a host are in
`apps/operations`.
"""
