"""Adapters that carry out the machine's commands: tools, MCP servers, Python functions, models."""
