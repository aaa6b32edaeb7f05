"""MCP servers: their configuration, a pool of open sessions, and their tools.

The SDK is imported only when a server is contacted.
"""

from callsheet.ports.answers import BlobSink
from callsheet.ports.mcp.config import (
    McpConfigFile,
    load_config,
    load_configs,
    parse_config,
)
from callsheet.ports.mcp.content import folder_sink
from callsheet.ports.mcp.discovery import discover, looked_for
from callsheet.ports.mcp.managed_server import ServerStatus
from callsheet.ports.mcp.pool import McpPool
from callsheet.ports.mcp.servers import (
    Grant,
    HttpServer,
    McpServerConfig,
    OAuthRules,
    StdioServer,
    ToolProbe,
    ToolRule,
    credentials_of,
)

__all__ = [
    "BlobSink",
    "Grant",
    "HttpServer",
    "McpConfigFile",
    "McpPool",
    "McpServerConfig",
    "OAuthRules",
    "ServerStatus",
    "StdioServer",
    "ToolProbe",
    "ToolRule",
    "credentials_of",
    "discover",
    "folder_sink",
    "load_config",
    "load_configs",
    "looked_for",
    "parse_config",
]
