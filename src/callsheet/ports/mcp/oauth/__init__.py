"""OAuth logins with MCP servers at URLs, kept apart from journals and used by runs.

A run only uses and renews stored logins. Logging in is done by a person with `callsheet login`, or by a
machine with its own credentials. The SDK implements the parts of OAuth; what is contacted, sent and stored
is decided here.
"""
