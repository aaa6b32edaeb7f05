"""The demonstration: real MCP servers on a sample repository and database that it makes."""
