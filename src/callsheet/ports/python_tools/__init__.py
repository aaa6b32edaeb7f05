"""Python functions as tools: the decorator, one tool of a function, the tools of a file.

In: functions with typed signatures. Out: `Tool`s with a JSON schema, whose handlers convert the
arguments before the call and turn the result into JSON. Pydantic is imported only for a type
that needs it.
"""

from callsheet.ports.python_tools.declare import tool, tool_of
from callsheet.ports.python_tools.load import load_function, load_tools
from callsheet.ports.python_tools.results import to_json

__all__ = ["load_function", "load_tools", "to_json", "tool", "tool_of"]
