"""What is known of calls, talks and loops that are under way, until their step is done.

In: what was let pass, and what came of it. Out: the label and the origins of a step's result.
"""

from __future__ import annotations

from callsheet.ir.labels import Label
from callsheet.machine.keys import place_of_key
from callsheet.machine.monitor.admitted import Admitted, Origins
from callsheet.machine.monitor.origins import merged


class Underway:
    """The labels of what has no outcome yet, by key of a call or by prefix of a step's keys."""

    __slots__ = ("calls", "loops", "results", "talks")

    def __init__(self) -> None:
        self.calls: dict[str, Admitted] = {}
        """Calls without an outcome, by key."""
        self.talks: dict[str, tuple[Label, Origins]] = {}
        """What the model of an operation in turns has seen so far, by key."""
        self.loops: dict[str, tuple[Label, Origins]] = {}
        """What loops under way go through, by the prefix of their keys."""
        self.results: dict[str, tuple[Label, Origins]] = {}
        """What has come of the calls of steps under way, by the prefix of their keys."""

    def has_seen(self, talk: str, label: Label, origins: Origins) -> None:
        """The model of a talk has seen something of this label."""
        seen, before = self.talks[talk]
        self.talks[talk] = seen.join(label), merged(before, origins)

    def add_result(self, prefix: str, label: Label, origins: Origins) -> None:
        """Something of this label is in what a step gives."""
        known = self.results.get(prefix)
        if known is None:
            self.results[prefix] = label, origins
        elif known[0] is not label or known[1] is not origins:
            self.results[prefix] = label.join(known[0]), merged(known[1], origins)

    def forget(self, prefix: str) -> None:
        """A step has failed, whose keys begin so, and nothing reads what it gave."""
        self.results.pop(prefix, None)
        self.loops.pop(prefix, None)

    def rename(self, before: str, key: str) -> None:
        """A call is tried again under another key."""
        if before in self.calls:
            self.calls[key] = self.calls.pop(before)
        if before in self.talks:
            self.talks[key] = self.talks.pop(before)

    def sent_by(self, key: str) -> Label | None:
        """The label of all that a call takes along; None for one that is not under way."""
        admitted = self.calls.get(key)
        return None if admitted is None else admitted.sent

    def holds_secrets_of(self, step: str) -> bool:
        """Whether a call of a step takes along, or has given, what nobody may read."""
        calls = [key for key, a in self.calls.items() if a.result.is_secret or a.sent.is_secret]
        prefixes = (*self.results.items(), *self.loops.items())
        calls += [f"{prefix}0.1" for prefix, (label, _) in prefixes if label.is_secret]
        calls += [key for key, (label, _) in self.talks.items() if label.is_secret]
        return any(place_of_key(key)[0] == step for key in calls)
