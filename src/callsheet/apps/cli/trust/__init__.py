"""`callsheet trust`: commands for the trusted declarations of MCP server tools."""
