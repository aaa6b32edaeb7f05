"""Runs code from a plan: always with resource limits, and in a sandbox if the system has one."""

from callsheet.ports.builtin.execute.tools import Isolation, execution_tools, isolation

__all__ = ["Isolation", "execution_tools", "isolation"]
