"""Runs code from a plan: always with resource limits, and in a sandbox if the system has one."""

from callsheet.ports.builtin.execute.isolation import Isolation, isolation
from callsheet.ports.builtin.execute.tools import execution_tools

__all__ = ["Isolation", "execution_tools", "isolation"]
