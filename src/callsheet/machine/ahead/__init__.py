"""Running ahead: issues calls before their turn in text order where that cannot change a result."""

from callsheet.machine.ahead.ahead import Ahead, Turn

__all__ = ["Ahead", "Turn"]
