"""Python functions as tools: the `tool` decorator, and the tools of a function or of a file.

In: functions with typed signatures. Out: `Tool`s with a JSON schema, whose handlers convert the arguments
before the call and the result to JSON. Pydantic is imported only for types that need it.
"""

from callsheet.ports.python_tools.declare import tool, tool_of
from callsheet.ports.python_tools.load import load_function, load_tools
from callsheet.ports.python_tools.results import to_json

__all__ = ["load_function", "load_tools", "to_json", "tool", "tool_of"]
