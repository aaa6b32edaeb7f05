"""Logins with MCP servers at URLs, by OAuth as MCP has it: kept apart from journals, used by runs.

A run only uses and renews what is kept; who logs in is a person with `callsheet login`, or a machine that has
credentials of its own. The parts of OAuth come from the SDK; what is reached, sent and kept is decided here.
"""
