"""The page of the Python API: the exports of `callsheet`, by kind."""

from __future__ import annotations

import inspect

import callsheet


def python_page() -> str:
    """Directives for mkdocstrings, which fills in signatures and docstrings when the site is built."""
    names = {name: getattr(callsheet, name) for name in callsheet.__all__}
    functions = [name for name, value in names.items() if inspect.isfunction(value)]
    classes = [name for name, value in names.items() if inspect.isclass(value)]
    others = [name for name in names if name not in functions and name not in classes]
    parts = [
        "# Python reference\n\nAll names exported by `callsheet`; "
        "[the guide](../api.md) shows how to use them.\n"
    ]
    for title, group in (("Functions", functions), ("Classes", classes), ("Types", others)):
        parts.append(f"## {title}\n")
        parts += [f"::: {_place(name, names[name])}\n" for name in group]
    return "\n".join(parts)


def _place(name: str, value: object) -> str:
    if (inspect.isclass(value) or inspect.isfunction(value)) and value.__name__ == name:
        return f"{value.__module__}.{value.__qualname__}"
    return f"callsheet.{name}"
