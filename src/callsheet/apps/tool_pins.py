"""The pins of MCP server tools: the file of the settings, and the comparison with it.

In: the settings. Out: the file and its path, and the keeper that compares declarations of tools with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.apps.settings import Settings

if TYPE_CHECKING:
    from callsheet.ports.mcp.trust import PinFile, PinKeeper


def pins_path(settings: Settings) -> Path:
    """The file with the pins of server tools; it need not exist."""
    from callsheet.ports.mcp.trust import default_pins  # noqa: PLC0415 - only with servers or a policy

    return default_pins() if settings.pins is None else Path(settings.pins).expanduser()


def pin_file(settings: Settings) -> PinFile:
    """The file with the pins of server tools."""
    from callsheet.ports.mcp.trust import PinFile  # noqa: PLC0415 - only with servers

    return PinFile(pins_path(settings))


def pin_keeper(settings: Settings, *, records: bool = True) -> PinKeeper:
    """The comparison of server tools with the pins in that file."""
    from callsheet.ports.mcp.trust import PinKeeper  # noqa: PLC0415 - as above

    return PinKeeper(pin_file(settings), pinned=settings.trust == "pinned", records=records)
