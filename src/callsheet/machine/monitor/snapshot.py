"""Converts a monitor's labels to JSON data and back, for snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from callsheet.ir.labels import LITERAL, Label, read_label
from callsheet.ir.tree_flow import Region
from callsheet.machine.monitor.monitor import Monitor
from callsheet.machine.monitor.tree_labels import Known, Lists, Noted, Scope
from callsheet.machine.monitor.trees import TreeMonitor
from callsheet.machine.monitor.variable_labels import Admitted, Origins
from callsheet.machine.tree.activations import Activation
from callsheet.policy.calls import Argument, Hole, Part
from callsheet.policy.canon import policy_hash
from callsheet.policy.field_labels import FieldLabels
from callsheet.policy.labelled import Labelled, Says

_Told: TypeAlias = "tuple[Label, Origins]"


def monitor_to_json(monitor: Monitor) -> dict[str, Any]:
    """All labels of a run as JSON data; variables without label and origins are left out."""
    variables = monitor.variable_labels
    labelled = zip(variables.labels, variables.origins, strict=True)
    return {
        "slots": [
            [slot, *_to_json(item)] for slot, item in enumerate(labelled) if item[0] != LITERAL or item[1]
        ],
        "extra": {name: _to_json(item) for name, item in variables.extra.items()},
        "noted": [[number, str(label)] for number, label in monitor.implicit_flows.noted.items()],
        "presence": {name: str(label) for name, label in variables.presence.items()},
        "last": _to_json(variables.last),
        "base": str(monitor.implicit_flows.base),
        "anew": monitor.is_anew,
        **common_to_json(monitor),
    }


def put_monitor(monitor: Monitor, data: Mapping[str, Any]) -> None:
    """Restore a monitor from JSON data.

    Raises KeyError, IndexError, TypeError or ValueError if it is malformed or of a run under another policy.
    """
    put_common(monitor, data)
    noted = {number: read_label(label) for number, label in data["noted"]}
    monitor.resume_plan(read_label(data["base"]), noted, is_anew=bool(data["anew"]))
    variables = monitor.variable_labels
    count = len(variables.labels)
    variables.labels, variables.origins = [LITERAL] * count, [()] * count
    for slot, *item in data["slots"]:
        variables.labels[slot], variables.origins[slot] = _from_json(item)
    variables.extra = {name: _from_json(item) for name, item in data["extra"].items()}
    variables.presence = {name: read_label(label) for name, label in data["presence"].items()}
    variables.last = _from_json(data["last"])


def common_to_json(monitor: Monitor) -> dict[str, Any]:
    """What a monitor knows whatever its plan is: policy, calls so far, the labels of those in progress."""
    open_calls = monitor.open_calls
    return {
        "policy": policy_hash(monitor.enforcement.policy),
        "literal": str(monitor.literal),
        "calls": {key: admitted.to_json() for key, admitted in open_calls.calls.items()},
        "talks": {key: _to_json(item) for key, item in open_calls.talks.items()},
        "loops": {prefix: _to_json(item) for prefix, item in open_calls.loops.items()},
        "results": {prefix: _to_json(item) for prefix, item in open_calls.results.items()},
        **({"history": monitor.history.to_json()} if monitor.history.is_needed else {}),
    }


def put_common(monitor: Monitor, data: Mapping[str, Any]) -> None:
    """Restore what `common_to_json` gave; raises as `put_monitor`."""
    if data["policy"] != policy_hash(monitor.enforcement.policy):
        raise ValueError("it belongs to a run under another policy")
    open_calls = monitor.open_calls
    monitor.literal = read_label(data["literal"])
    open_calls.calls = {key: Admitted.from_json(item) for key, item in data["calls"].items()}
    open_calls.talks = {key: _from_json(item) for key, item in data["talks"].items()}
    open_calls.loops = {prefix: _from_json(item) for prefix, item in data["loops"].items()}
    open_calls.results = {prefix: _from_json(item) for prefix, item in data["results"].items()}
    if monitor.history.is_needed:
        monitor.history.restore(data["history"])


def _to_json(item: _Told) -> list[Any]:
    return [str(item[0]), list(item[1])]


def _from_json(data: list[Any]) -> _Told:
    label, origins = data
    return read_label(label), tuple(origins)


def tree_monitor_to_json(monitor: TreeMonitor, acts: Sequence[Activation]) -> dict[str, Any]:
    """All labels of a run of a tree as JSON data."""
    writer = _Writer(monitor)
    labels = monitor.labels
    return {
        "main": writer.number(monitor.main),
        "acts": [None if act.labels is None else writer.number(act.labels) for act in acts],
        **monitor.marks_to_json(),
        "clock": str(labels.clock),
        "elapsed": str(labels.elapsed),
        "timed": labels.timed,
        "links": labels.known_links_opened,
        **({"anew": True} if monitor.is_anew else {}),
        **common_to_json(monitor),
        **writer.rows(),
    }


def put_tree_monitor(monitor: TreeMonitor, acts: Sequence[Activation], data: Mapping[str, Any]) -> None:
    """Restore the monitor of a tree, and the labels of its activations, from JSON data.

    Raises KeyError, IndexError, TypeError or ValueError if it is malformed or of a run under another policy.
    """
    if data.get("anew"):
        monitor.begin_anew()
    put_common(monitor, data)
    reader = _Reader(monitor, data)
    labels = monitor.labels
    monitor.main = reader.scopes[data["main"]]
    for act, number in zip(acts, data["acts"], strict=True):
        act.labels = None if number is None else reader.scopes[number]
    monitor.put_marks(data)
    labels.resume(monitor.literal, read_label(data["clock"]), int(data["links"]))
    labels.elapsed = read_label(data.get("elapsed", data["clock"]))
    labels.timed = int(data.get("timed", 0))


class _Writer:
    """Numbers scopes and what is known of variables."""

    def __init__(self, monitor: TreeMonitor) -> None:
        self._monitor = monitor
        self._scopes: list[dict[str, Any]] = []
        self._known: list[list[Any]] = []
        self._numbers: dict[int, int] = {}
        self._known_numbers: dict[int, int] = {}

    def rows(self) -> dict[str, Any]:
        """The rows of all that has a number."""
        return {"scopes": self._scopes, "known": self._known}

    def number(self, scope: Scope) -> int:
        """The number of a scope; those around it come first."""
        number = self._numbers.get(id(scope))
        if number is None:
            parent = None if scope.parent is None else self.number(scope.parent)
            before = [[self.number(home), name, self._of(known)] for home, name, known in scope.before]
            number = self._numbers[id(scope)] = len(self._scopes)
            self._scopes.append(self._row(scope, parent, before))
        return number

    def _row(self, scope: Scope, parent: int | None, before: list[list[Any]]) -> dict[str, Any]:
        return {
            "body": self._monitor.labels.name_of(scope.body),
            "parent": parent,
            "base": str(scope.base),
            "in_loop": scope.in_loop,
            "is_timed": scope.is_timed,
            "variables": {name: self._of(known) for name, known in scope.variables.items()},
            "noted": None if parent is not None else [_noted(one) for one in scope.noted],
            "result": _labelled(scope.result),
            "ends": [str(scope.failure), str(scope.content), str(scope.caught)],
            "told": {id_: str(label) for id_, label in scope.told.items()},
            "fields": {id_: _fields(fields) for id_, fields in scope.fields.items()},
            "computed": {
                id_: {name: _labelled(one) for name, one in made.items()}
                for id_, made in scope.computed.items()
            },
            "lists": {id_: [str(one.label), _labelled(one.item)] for id_, one in scope.lists.items()},
            "before": before,
        }

    def _of(self, known: Known) -> int:
        number = self._known_numbers.get(id(known))
        if number is None:
            number = self._known_numbers[id(known)] = len(self._known)
            noted = [_noted(one) for one in known.noted]
            self._known.append([_labelled(known.value), noted, known.has_known_links])
        return number


class _Reader:
    """Makes the scopes that `_Writer` has written."""

    def __init__(self, monitor: TreeMonitor, data: Mapping[str, Any]) -> None:
        self._monitor = monitor
        self._known = [
            Known(_read_labelled(value), tuple(map(_read_noted, noted)), bool(has_links))
            for value, noted, has_links in data["known"]
        ]
        self.scopes: list[Scope] = []
        for row in data["scopes"]:
            self.scopes.append(self._scope(row))

    def _scope(self, row: Mapping[str, Any]) -> Scope:
        place: int | None = row["parent"]
        parent = None if place is None else self.scopes[place]
        failure, content, caught = map(read_label, row["ends"])
        return Scope(
            self._monitor.labels.body_called(row["body"]),
            parent,
            read_label(row["base"]),
            bool(row["in_loop"]),
            bool(row.get("is_timed", False)),
            {name: self._known[number] for name, number in row["variables"].items()},
            [_read_noted(one) for one in row["noted"]] if parent is None else parent.noted,
            _read_labelled(row["result"]),
            failure,
            content,
            caught,
            {id_: read_label(text) for id_, text in row["told"].items()},
            {id_: _read_fields(fields) for id_, fields in row["fields"].items()},
            {
                id_: {name: _read_labelled(one) for name, one in made.items()}
                for id_, made in row["computed"].items()
            },
            {
                id_: Lists(read_label(label), _read_labelled(item))
                for id_, (label, item) in row["lists"].items()
            },
            [(self.scopes[home], name, self._known[number]) for home, name, number in row["before"]],
        )


def _noted(one: Noted) -> list[Any]:
    return [*one.region, str(one.label), list(one.by)]


def _read_noted(data: list[Any]) -> Noted:
    first, last, *marks, label, by = data
    return Noted(Region(first, last, *map(bool, marks)), read_label(label), tuple(by))


def _labelled(value: Labelled) -> list[Any]:
    shapes = [_argument(shape) for shape in value.shapes]
    fields = None if value.fields is None else _fields(value.fields)
    return [str(value.label), str(value.presence), shapes, list(value.origins), int(value.says), fields]


def _read_labelled(data: list[Any]) -> Labelled:
    label, presence, shapes, origins, says, fields = data
    return Labelled(
        read_label(label),
        read_label(presence),
        tuple(map(_read_argument, shapes)),
        tuple(origins),
        Says(says),
        None if fields is None else _read_fields(fields),
    )


def _argument(argument: Argument) -> list[Any]:
    parts = [
        part if isinstance(part, str) else [part.name, str(part.label), part.text] for part in argument.parts
    ]
    return [argument.name, parts, str(argument.label), [_argument(item) for item in argument.items]]


def _read_argument(data: list[Any]) -> Argument:
    name, parts, label, items = data
    return Argument(name, tuple(map(_part, parts)), read_label(label), tuple(map(_read_argument, items)))


def _part(data: Any) -> Part:
    if isinstance(data, str):
        return data
    name, label, text = data
    return Hole(name, read_label(label), text)


def _fields(fields: FieldLabels) -> list[Any]:
    return [str(fields.rest), [[list(path), str(label)] for path, label in fields.named]]


def _read_fields(data: list[Any]) -> FieldLabels:
    rest, named = data
    return FieldLabels(read_label(rest), tuple((tuple(path), read_label(label)) for path, label in named))
