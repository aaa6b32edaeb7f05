"""Running code that a plan brings along: in a sandbox where the system has one, in limits always."""

from callsheet.ports.builtin.execute.isolation import Isolation, isolation
from callsheet.ports.builtin.execute.tools import execution_tools

__all__ = ["Isolation", "execution_tools", "isolation"]
