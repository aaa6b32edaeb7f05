"""The gate: an MCP server between an agent's client and its MCP servers; each session is a run."""
