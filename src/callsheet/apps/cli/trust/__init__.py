"""`callsheet trust`: which declarations of MCP server tools are trusted."""
