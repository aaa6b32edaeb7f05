"""`callsheet trust`: which tools of MCP servers are trusted, as which declarations."""
