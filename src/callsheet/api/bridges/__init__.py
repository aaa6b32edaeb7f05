"""Bridges: tools of LangChain, the OpenAI Agents SDK, pydantic-ai and OpenAPI in plans, and plans as theirs.

Each library is imported when its bridge is used; none is a dependency of callsheet.
"""
