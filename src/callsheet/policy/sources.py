"""The labels that a policy gives to data by its source: files, hosts, tools and memory.

In: a policy. Out: the label of what is read from a source. Rules that restrict readers match
case-insensitively and cover everything below a folder; others match exactly. A folder that is read as a whole
has the labels of its files as well, as far as rules name them by their folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeAlias

from callsheet.ir.labels import UNKNOWN, Label, join
from callsheet.policy.addresses import AllowedHosts
from callsheet.policy.builtins import PUBLIC_WORLD, fold
from callsheet.policy.model import Policy
from callsheet.policy.paths import (
    alternatives,
    covers,
    example,
    is_pattern,
    matches,
    may_name,
    readings_of,
    walked,
    with_folders,
)

OTHERS = "*"
"""Stands for all tools that the policy does not describe."""


_Rules: TypeAlias = "list[tuple[str, Label]]"


def _named(rules: _Rules, path: str, readings: tuple[str, ...]) -> Label:
    """The label from the first rule that matches a path, whose `readings` are given."""
    for pattern, label in rules:
        if _restricts(label):
            if any(covers(pattern, reading) for reading in readings):
                return label
        elif matches(pattern, path):
            return label
    return UNKNOWN


def _restricts(label: Label) -> bool:
    """Whether a label has fewer readers than the default."""
    return label.readers is not None and not label.readers.issuperset(UNKNOWN.readers or ())


class Sources:
    """The source rules of a policy, prepared for lookups."""

    def __init__(self, policy: Policy) -> None:
        self._files = [(r.pattern, r.label) for r in policy.sources if r.kind == "file"]
        self._host_files = [(r.pattern, r.label) for r in policy.sources if r.kind in ("host", "file")]
        self._urls = [(AllowedHosts.parse([r.pattern]), r.label) for r in policy.sources if r.kind == "url"]
        tools = [r for r in policy.sources if r.kind == "tool"]
        self._tools = {fold(r.pattern): r.label for r in reversed(tools) if r.pattern != OTHERS}
        self.undescribed = next((r.label for r in tools if r.pattern == OTHERS), UNKNOWN)
        """The label of results of tools that the policy does not describe."""
        self._memory = next((r.label for r in policy.sources if r.kind == "memory"), None)
        self.of_files = (UNKNOWN, *dict.fromkeys(label for _, label in self._files))
        """All labels that a file of the workspace may have by the policy."""
        self._label_of = lru_cache(maxsize=4_096)(self._file)
        self._examples = [example(pattern) for pattern, _ in self._files if not pattern.startswith("*")]
        self.whole = lru_cache(maxsize=4_096)(self._whole)
        """The label of a file or of all that is in a folder, or of the files that a glob may match."""

    def file(self, path: str, on_host: bool = False) -> Label:
        """The label of a file by its normal path, the join over all its readings.

        Files that no rule matches are private and untrusted.
        """
        return self._label_of(path, on_host)  # positional, so that all callers share cache entries

    def _file(self, path: str, on_host: bool) -> Label:
        rules, readings = self._host_files if on_host else self._files, readings_of(path)
        return join([_named(rules, walked(reading), readings) for reading in readings])

    def _whole(self, path: str) -> Label:
        return join(self.parts(path))

    def parts(self, path: str) -> Iterator[Label]:
        """The labels of what a file, folder or glob stands for, one for each rule; "" is the workspace."""
        yield self.file(path)
        yield from (self.file(name) for name in self._examples if not path or _contains(path, name))

    def may_be_secret(self, glob: str) -> bool:
        """Whether a glob may match a file that the policy calls secret by its name."""
        return any(label.is_secret and may_name(glob, pattern) for pattern, label in self._host_files)

    def tool(self, tool: str) -> Label | None:
        """The label that a source rule gives to a tool's results, None if there is no rule."""
        if tool in ("QUERY_MEMORY", "MEMORY_STATS") and self._memory is not None:
            return self._memory
        return self._tools.get(tool)

    def host(self, host: str, audiences: frozenset[str]) -> Label:
        """The label of a host's answers; without a rule, those of a host in an audience count as private."""
        for allowed, label in self._urls:
            if allowed.allow_name(host):
                return label
        return Label(True, (UNKNOWN.readers or frozenset()) | audiences) if audiences else PUBLIC_WORLD


def _contains(path: str, name: str) -> bool:
    """Whether a path is a folder above a file, or a glob that may match the file or such a folder."""
    path, names = path.casefold(), with_folders(name.casefold())
    if not is_pattern(path):
        return path in names[1:]
    return any(fnmatchcase(one, glob) for glob in alternatives(path) for one in names)
