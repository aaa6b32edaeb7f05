"""What a function's docstring says to those who call it: its summary, each argument, the result.

Pure. Read are the sections of Google (`Args:`), NumPy (a title over dashes) and Sphinx (`:param name:`), and
a paragraph that begins with *Returns*; what else stands behind the first one is for readers of the source.
"""

from __future__ import annotations

from typing import NamedTuple

from callsheet import lazy

_GOOGLE = lazy.pattern(r"([A-Z]\w*(?: \w+)?):$")
_NUMPY = lazy.pattern(r"-{3,}$")
_SPHINX = lazy.pattern(r":(\w+)(?: ([^:]*))?: ?(.*)$")
_ENTRY = lazy.pattern(r"\*{0,2}(\w+) ?(?:\([^)]*\))?: (.*)$")
_NUMPY_ENTRY = lazy.pattern(r"\*{0,2}(\w+)(?: ?:.*)?$")
_ARGUMENTS = frozenset(("args", "arguments", "parameters", "params"))
_RESULTS = frozenset(("returns", "return"))
_PARAMETERS = frozenset(("param", "parameter", "arg", "argument"))


class Documentation(NamedTuple):
    """The first paragraph of a docstring, what it says of arguments by name, and of the result."""

    summary: str
    arguments: dict[str, str]
    result: str

    @property
    def description(self) -> str:
        """The summary, and what is returned, where the summary does not say so itself."""
        is_said = not self.result or "returns" in self.summary.casefold()
        if is_said:
            return self.summary
        end = "" if not self.summary or self.summary.endswith((".", "!", "?")) else "."
        return f"{self.summary}{end} Returns: {self.result}".strip()


def read_docstring(text: str) -> Documentation:
    """What a cleaned docstring says (`inspect.getdoc`).

    >>> read_docstring("Tell.\\n\\nArgs:\\n    to (str): Whom,\\n        by name.\\n\\nReturns:\\n    An id.")
    Documentation(summary='Tell.', arguments={'to': 'Whom, by name.'}, result='An id.')
    >>> read_docstring("Tell.\\n\\nParameters\\n----------\\nto : str\\n    Whom.").arguments
    {'to': 'Whom.'}
    >>> read_docstring("Tell to:\\n- a person\\n- a group").summary
    'Tell to: - a person - a group'
    >>> read_docstring("Tell it.\\n:param to: Whom.\\n:return: An id.").description
    'Tell it. Returns: An id.'
    >>> read_docstring("Tell it.\\n\\nReturns {id}, which\\nis new.\\n\\nMore.").description
    'Tell it. Returns: {id}, which is new.'
    >>> read_docstring("Tell it.\\n\\nArgs:\\n    to: Whom.\\n\\nReturns {id}.").description
    'Tell it. Returns: {id}.'
    """
    lines = text.split("\n")
    first = next(
        (n for n, line in enumerate(lines) if not line.strip() or _is_read(_begins(lines, n))), len(lines)
    )
    arguments: dict[str, str] = {}
    results: list[str] = []
    section, name = "", ""
    depth: int | None = None
    """The indentation of a section's first line: some for an entry of Google, none for others."""
    for n, line in enumerate(lines[first:], first):
        said, indent = line.strip(), len(line) - len(line.lstrip())
        title = _begins(lines, n)
        field = _SPHINX.match(said) if title == ":" else None
        if field is not None:
            words = (field[2] or "").split()
            section, name, depth = _kind(field[1]), words[-1] if words else "", 0
            said = field[3]
        elif title:
            section, name, depth = _kind(title), "", None
            continue
        elif not said or _NUMPY.match(said):
            section = "" if section == "sentence" else section
            continue
        elif line.startswith("Returns ") and (section in ("", "others") or not lines[n - 1].strip()):
            section, said = "sentence", said.partition(" ")[2]
        else:
            depth = indent if depth is None else depth
            entry = _ENTRY.match(said) if 0 < indent <= depth else None
            if depth and not indent:
                section = "others"  # prose behind a section of Google
            elif section == "arguments" and entry is not None:
                name, said = entry[1], entry[2]
            elif section == "arguments" and not indent:
                plain = _NUMPY_ENTRY.match(said)
                name, said = "" if plain is None else plain[1], ""
        if section == "arguments" and name:
            arguments[name] = f"{arguments.get(name, '')} {said}".strip()
        elif section in ("results", "sentence"):
            results.append(said)
    return Documentation(
        " ".join(" ".join(lines[:first]).split()),
        {key: value for key, value in arguments.items() if value},
        " ".join(results),
    )


def _kind(title: str) -> str:
    word = title.casefold()
    if word in _ARGUMENTS or word in _PARAMETERS:
        return "arguments"
    return "results" if word in _RESULTS else "others"


def _is_read(title: str) -> bool:
    """Whether a section ends the first paragraph; any other line that ends in a colon is a part of that."""
    return title == ":" or _kind(title) != "others"


def _begins(lines: list[str], n: int) -> str:
    """The title of the section that begins in a line; `:` for a field of Sphinx, empty for none."""
    line = lines[n]
    if _SPHINX.match(line):
        return ":"
    google = _GOOGLE.match(line)
    if google is not None:
        return google[1]
    is_over_dashes = n + 1 < len(lines) and _NUMPY.match(lines[n + 1]) is not None
    return line if line and is_over_dashes else ""
