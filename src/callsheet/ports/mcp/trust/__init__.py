"""Trust in the tools of MCP servers: pins of what each declared when first seen or approved.

A file of pins outlives runs: a tool whose declaration changes is refused until a person has approved the
change. Nothing here starts or calls a server.
"""

from callsheet.ports.mcp.trust.judging import (
    CHANGED,
    UNAPPROVED,
    Judgement,
    PinKeeper,
    SeenServer,
    changed_fields,
    differences,
    hints_text,
)
from callsheet.ports.mcp.trust.lock import Lock, LockedServer, LockedTool, LockFile, locked_server, stale
from callsheet.ports.mcp.trust.records import (
    VARIABLE,
    PinFile,
    PinnedServer,
    PinnedTool,
    Pins,
    RecordReason,
    Reported,
    ServerIdentity,
    default_pins,
    identity_of,
)

__all__ = [
    "CHANGED",
    "UNAPPROVED",
    "VARIABLE",
    "Judgement",
    "Lock",
    "LockFile",
    "LockedServer",
    "LockedTool",
    "PinFile",
    "PinKeeper",
    "PinnedServer",
    "PinnedTool",
    "Pins",
    "RecordReason",
    "Reported",
    "SeenServer",
    "ServerIdentity",
    "changed_fields",
    "default_pins",
    "differences",
    "hints_text",
    "identity_of",
    "locked_server",
    "stale",
]
