"""MCP servers: their configuration, a pool of open sessions, their tools.

The SDK is imported only when a server is reached.
"""

from callsheet.ports.mcp.config import (
    HttpServer,
    McpConfigFile,
    McpServerConfig,
    StdioServer,
    ToolProbe,
    ToolRule,
    load_config,
    load_configs,
    parse_config,
)
from callsheet.ports.mcp.content import BlobSink, folder_sink
from callsheet.ports.mcp.credentials import credentials_of
from callsheet.ports.mcp.discovery import discover
from callsheet.ports.mcp.pool import McpPool, ServerStatus

__all__ = [
    "BlobSink",
    "HttpServer",
    "McpConfigFile",
    "McpPool",
    "McpServerConfig",
    "ServerStatus",
    "StdioServer",
    "ToolProbe",
    "ToolRule",
    "credentials_of",
    "discover",
    "folder_sink",
    "load_config",
    "load_configs",
    "parse_config",
]
