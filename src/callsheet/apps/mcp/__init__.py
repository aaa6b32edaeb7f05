"""callsheet as an MCP server: its tools, resources and prompts, over stdio or streamable HTTP.

In: requests of an MCP client. Out: answers, with text for people and data for programs. What a tool does
stands in `apps.operations` and `apps.hosting`; nothing here knows the language or the journal's form.
"""
