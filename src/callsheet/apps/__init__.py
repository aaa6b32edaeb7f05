"""The applications on top of callsheet (CLI, HTTP, MCP, chat, LSP); thin, without semantics of their own."""
