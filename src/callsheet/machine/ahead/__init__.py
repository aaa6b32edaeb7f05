"""Running ahead of the text where nobody can tell: what may start early, and what waits for what."""

from callsheet.machine.ahead.ahead import Ahead, Turn

__all__ = ["Ahead", "Turn"]
