"""The built-in tools: web, files, code, memory and, on request, the host.

In: the operator's settings. Out: tools for a registry. Importing this is cheap: the HTTP client and the
HTML parser are loaded by the first call that needs them.
"""

from callsheet.ports.builtin.execute import Isolation, execution_tools, isolation
from callsheet.ports.builtin.files import file_tools
from callsheet.ports.builtin.host import host_tools
from callsheet.ports.builtin.memory import memory_tools, working_memory_tools
from callsheet.ports.builtin.settings import BuiltinSettings, ExecutionSettings, FetchSettings, SearchSettings
from callsheet.ports.builtin.web import fetch_tool, search_tool
from callsheet.ports.tools import Tool

__all__ = [
    "BuiltinSettings",
    "ExecutionSettings",
    "FetchSettings",
    "Isolation",
    "SearchSettings",
    "builtin_tools",
    "isolation",
]


def builtin_tools(settings: BuiltinSettings) -> list[Tool]:
    """The built-in tools with these settings; `host` in the settings adds the host tools.

    Raises CallsheetError (TOL101) for settings that cannot be used.

    >>> from pathlib import Path
    >>> tools = builtin_tools(BuiltinSettings(workspace=Path("."), data=Path("data")))
    >>> [tool.spec.name for tool in tools][:3]
    ['WEB_SEARCH', 'FETCH_PAGE', 'EXEC_CODE']
    """
    settings.check()
    tools = [
        search_tool(settings.search),
        fetch_tool(settings.fetch),
        *execution_tools(settings),
        *file_tools(settings),
        *memory_tools(settings),
        *working_memory_tools(settings),
    ]
    return [*tools, *host_tools(settings)] if settings.host else tools
