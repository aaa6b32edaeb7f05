from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool()
def degrees(city: str) -> dict[str, int]:
    """How warm it is."""
    return {"degrees": len(city) * 5}


server.run("stdio")
