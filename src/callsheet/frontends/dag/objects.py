"""Checks an object of the tree against its known fields: missing, misspelt or of the wrong type."""

from __future__ import annotations

from collections.abc import Mapping as Table
from collections.abc import Sequence as Many

from callsheet.diagnostics import Edit, Fix, Span, did_you_mean
from callsheet.frontends.dag.fields import Field
from callsheet.frontends.dag.report import Report
from callsheet.frontends.tree import Entry, Mapping, Node, Scalar, Sequence, kind_of

_KINDS = {
    "an object": Mapping,
    "a list": Sequence,
    "a list of indexes": Sequence,
    "a list of one call": Sequence,
}


class Fields:
    """The fields of one object; access to a field of the wrong type reports an error."""

    def __init__(self, mapping: Mapping, known: Table[str, Field], report: Report, what: str) -> None:
        self.span = mapping.span
        self.what = what
        """The name of the object in messages: `step 3`."""
        self.step: str | None = None
        """The id of the step that it belongs to."""
        self._report = report
        self._known = known
        self._entries = {entry.key: entry for entry in mapping.entries}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def entry(self, name: str) -> Entry | None:
        """The entry of a field, unchecked; None if there is none."""
        return self._entries.get(name)

    def check_names(self, also: Many[str] = ()) -> None:
        """Report each unknown field: as an error if a known one may be meant, else as a warning."""
        for name, entry in self._entries.items():
            if name in self._known or name in also:
                continue
            suggestions = did_you_mean(name, [known for known in self._known if known not in self._entries])
            message = f"{self.what} has no field {name[:40]!r}"
            if suggestions:
                fix = Fix(f"write {suggestions[0]}", (Edit(entry.key_span, f'"{suggestions[0]}"'),))
                help_ = "did you mean " + " or ".join(suggestions) + "?"
                self._report.error("DAG012", message, entry.key_span, help_, fix=fix, step=self.step)
            else:
                help_ = "it is ignored; the fields are " + ", ".join(self._known)
                self._report.warning("DAG012", message, entry.key_span, help_, step=self.step)

    def require(self, *names: str) -> None:
        """Report the fields that are missing, as one error."""
        missing = [name for name in names if name not in self._entries]
        if missing:
            listed = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
            start = self.span.start
            help_ = "; ".join(f'"{name}" holds {self._known[name].holds}' for name in missing)
            self._report.error(
                "DAG010", f"{self.what} has no {listed}", Span(start, start + 1), help_, step=self.step
            )

    def text(self, name: str, *, or_null: bool = False) -> Scalar | None:
        """The string of a field, None if there is none; null is an error unless `or_null`."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        value = entry.value
        if isinstance(value, Scalar) and (isinstance(value.value, str) or (or_null and value.value is None)):
            return value if value.value is not None else None
        self.wrong_kind(name, value)
        return None

    def object(self, name: str) -> Mapping | None:
        """The object of a field."""
        value = self._of_kind(name)
        return value if isinstance(value, Mapping) else None

    def list(self, name: str) -> Sequence | None:
        """The list of a field."""
        value = self._of_kind(name)
        return value if isinstance(value, Sequence) else None

    def number(self, name: str) -> int | float | None:
        """The number of a field; true and false are errors."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        value = entry.value
        number = value.value if isinstance(value, Scalar) else None
        if isinstance(number, int | float) and not isinstance(number, bool):
            return number
        self.wrong_kind(name, value)
        return None

    def _of_kind(self, name: str) -> Node | None:
        entry = self._entries.get(name)
        if entry is None:
            return None
        if isinstance(entry.value, _KINDS[self._known[name].holds]):
            return entry.value
        self.wrong_kind(name, entry.value)
        return None

    def wrong_kind(self, name: str, node: Node) -> None:
        """Report a field of the wrong type."""
        holds = self._known[name].holds
        help_: str | None = None
        if isinstance(node, Scalar) and isinstance(node.value, str) and holds != "a text":
            help_ = "remove the quotes" if node.value.lstrip()[:1] in ("{", "[") else None
            if holds == "a list of indexes":
                help_ = f'write ["{node.value[:40]}"]'
        elif isinstance(node, Scalar) and isinstance(node.value, int | float) and holds == "a text":
            help_ = f'write "{node.value}"'
        elif isinstance(node, Scalar) and node.value is None:
            help_ = {"an object": "write {} for none", "a list of indexes": "write [] for none"}.get(holds)
        self._report.error(
            "DAG011",
            f"{name} of {self.what} is {kind_of(node)}, but should be {holds}",
            node.span,
            help_,
            step=self.step,
        )
