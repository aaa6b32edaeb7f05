"""What commands go out through: tools with their effects, MCP servers, models, people, clocks."""
