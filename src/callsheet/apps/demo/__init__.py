"""`callsheet demo`: real MCP servers on a generated sample repository and database."""
