"""Trust in the tools of MCP servers: pins of what each declared when first seen or approved.

A file of pins outlives runs: a tool whose declaration changes is refused until a person has approved the
change. Nothing here starts or calls a server.
"""

from callsheet.ports.mcp.trust.checking import PinKeeper
from callsheet.ports.mcp.trust.differences import changed_fields, differences
from callsheet.ports.mcp.trust.file import VARIABLE, PinFile, default_pins
from callsheet.ports.mcp.trust.identity import Reported, ServerIdentity, identity_of
from callsheet.ports.mcp.trust.judging import CHANGED, UNAPPROVED, Judgement, SeenServer
from callsheet.ports.mcp.trust.records import PinnedServer, PinnedTool, Pins, RecordReason

__all__ = [
    "CHANGED",
    "UNAPPROVED",
    "VARIABLE",
    "Judgement",
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
    "identity_of",
]
