"""callsheet as an MCP server: its tools, resources and prompts, over stdio or streamable HTTP.

In: requests of an MCP client. Out: results with text for people and data for programs. The operations of the
tools are in `apps.operations` and `apps.hosting`; this package depends on neither syntax nor journal format.
"""
