"""The built-in tools: web, files, code, memory and, on request, the host.

In: the operator's settings. Out: tools for a registry. Importing this is cheap: the HTTP client and the
HTML parser are loaded by the first call that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.lazy import deferred, names_of
from callsheet.ports.builtin.settings import BuiltinSettings, ExecutionSettings, FetchSettings, SearchSettings
from callsheet.ports.tools import Tool

if TYPE_CHECKING:
    from callsheet.ports.builtin import execute, files, host, memory, web
    from callsheet.ports.builtin.execute import Isolation, isolation
else:
    __getattr__ = names_of(__name__, {"callsheet.ports.builtin.execute": "Isolation isolation"})
    execute = deferred("callsheet.ports.builtin.execute")
    files = deferred("callsheet.ports.builtin.files")
    host = deferred("callsheet.ports.builtin.host")
    memory = deferred("callsheet.ports.builtin.memory")
    web = deferred("callsheet.ports.builtin.web")

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
        web.search_tool(settings.search),
        web.fetch_tool(settings.fetch),
        *execute.execution_tools(settings),
        *files.file_tools(settings),
        *memory.memory_tools(settings),
        *memory.working_memory_tools(settings),
    ]
    return [*tools, *host.host_tools(settings)] if settings.host else tools
