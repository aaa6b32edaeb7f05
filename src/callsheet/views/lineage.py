"""Renders the lineage of a value as a small text tree, and that of all values of a run as PROV-JSON.

In: a lineage, and a slice of it or the times of events. Out: lines, or JSON data. In the tree a node with
children is expanded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from callsheet.ir import JSON, CallKind
from callsheet.ir.operations import AGENT_OPERATIONS
from callsheet.ir.tree import Try
from callsheet.machine.agents.actions import MAX_AT_ONCE, Action, Finish, Unreadable, read_action
from callsheet.machine.keys import attempt_key, parse_key
from callsheet.sealing.keys import WITHHELD
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import NONE, Lineage, ValueSource, Visit, Write
from callsheet.trace.lineage.reads import Path, Role
from callsheet.trace.lineage.slices import Flow, Graph, Node, Reached, item_at
from callsheet.views.columns import cut, json_head, printable
from callsheet.views.describe import Wording, describe_action, wording_of
from callsheet.views.otel.operations import as_text

_VALUE = 48
_ACTION = 40
_MOST_CHILDREN = 12
_FAILED = {ValueSource.ERROR: ": failed", ValueSource.USE: ": failed, its USE value"}


UNNAMED = frozenset({ValueSource.ANSWER, ValueSource.INNER})
"""What makes values that are no variables."""


def words_of(lineage: Lineage) -> Wording:
    """Returns how lines about a run word what is in its plan."""
    return wording_of(lineage.programs[0].plan)


def why_lines(lineage: Lineage, graph: Graph, start: Node, depth: int) -> Iterator[str]:
    """Yields the sources of a value as a tree, down to `depth` levels; below, only their number."""
    yield from _lines(lineage, graph, start, depth, is_backward=True)


def where_lines(lineage: Lineage, graph: Graph, start: Node, depth: int) -> Iterator[str]:
    """Yields what was derived from a value as a tree, down to `depth` levels."""
    yield from _lines(lineage, graph, start, depth, is_backward=False)


def _lines(lineage: Lineage, graph: Graph, start: Node, depth: int, *, is_backward: bool) -> Iterator[str]:
    """Yields the line of the root and those below it. Iterative: a chain may exceed the recursion limit."""
    words = words_of(lineage)
    yield node_line(lineage, start, words)
    stack: list[tuple[Node | None, str, str]] = []
    """The remaining lines, each with its node and the indent of its children."""
    expanded = {start}

    def push(node: Node, before: str, level: int) -> None:
        rows = list(_rows(lineage, graph, node, words, is_backward=is_backward))
        if not rows:
            return
        if level >= depth:
            rows = [(None, f"… and {len(rows)} more, with a greater --depth")]
        if len(rows) > _MOST_CHILDREN:
            rest = len(rows) - _MOST_CHILDREN
            rows = [*rows[:_MOST_CHILDREN], (None, f"… and {rest} more (--json --all has them all)")]
        for n, (child, text) in reversed(list(enumerate(rows))):
            is_last = n == len(rows) - 1
            line = f"{before}{'└─ ' if is_last else '├─ '}{text}"
            stack.append((child, before + ("   " if is_last else "│  "), line))

    push(start, "", 0)
    while stack:
        node, before, line = stack.pop()
        if node is None:
            yield line
        elif node in expanded and graph.get(node):
            yield f"{line}  (see above)"
        else:
            expanded.add(node)
            yield line
            push(node, before, len(before) // 3)


def _rows(
    lineage: Lineage, graph: Graph, node: Node, words: Wording, *, is_backward: bool
) -> Iterator[tuple[Node | None, str]]:
    """Yields the children of a node: its sources, literals included, or what was derived from it."""
    for flow in graph.get(node, ()):
        derived = node.write if is_backward else flow.node.write
        head = "time limit: " if _is_time_limit(lineage, derived, flow) else _head(flow, words)
        if flow.node.write == NONE:
            yield None, f"{head}{words.variable(flow.name, flow.node.path)}  ·  not set"
        else:
            yield flow.node, head + node_line(lineage, flow.node, words)
    write = lineage.writes[node.write]
    if is_backward and write.visit != NONE and node in graph:
        visit = lineage.visits[write.visit]
        for name, value in lineage.reads_of(visit).literals:
            yield (
                None,
                f"{name + ': ' if name else ''}{shown(value)}  ·  {_written_in(lineage, visit, words)}",
            )
        item, _ = item_at(lineage, visit, node.path)
        yield from ((None, line) for line in _attempt_lines(lineage, visit, item))
        yield from ((None, line) for line in _call_lines(lineage, visit))


def _is_time_limit(lineage: Lineage, derived: int, flow: Flow) -> bool:
    """Whether what flows into a failure is the time that its block was given."""
    visit = lineage.writes[derived].visit if derived != NONE else NONE
    if flow.role is not Role.SOURCE or visit == NONE or not isinstance(lineage, TreeLineage):
        return False
    return isinstance(lineage.site(lineage.visits[visit]).statement, Try)


def _written_in(lineage: Lineage, visit: Visit, words: Wording) -> str:
    """Where the text stands that a step has of its own."""
    planner = lineage.planner_of(visit) if isinstance(lineage, TreeLineage) else None
    return "in the plan" if planner is None else f"planned by {visit_line(lineage, planner, words)}"


def _attempt_lines(lineage: Lineage, visit: Visit, item: int | None) -> Iterator[str]:
    """Yields the failed attempts of a visit's calls, or of those of an item, before the last."""
    last = frozenset(lineage.last_keys(visit))
    for key in lineage.keys_of(visit) if item is None else lineage.keys_of_item(visit, item):
        outcome = lineage.outcomes.get(key)
        if outcome is not None and key not in last and attempt_key(key) == key:
            part = parse_key(key)
            of_item = f"[{part.index}] " if item is None and lineage.step(visit).foreach is not None else ""
            yield f"{of_item}attempt {part.attempt} failed: {shown(outcome.value)}  ·  event {outcome.seq}"


def _call_lines(lineage: Lineage, visit: Visit) -> Iterator[str]:
    """Yields the calls that an agent, or the client of a session, made in a visit, with what they gave.

    Its answer may be made from all of them: nobody saw how.
    """
    if isinstance(lineage, TreeLineage):
        return
    call = lineage.step(visit).call
    if call is None or call.tool not in AGENT_OPERATIONS:
        return
    actions: dict[str, Sequence[Action]] = {}
    for key, outcome in lineage.outcomes.items():
        if "/t" not in key:
            continue
        part = parse_key(key)
        if (part.step, part.visit, part.generation) != (lineage.step(visit).id, visit.visit, visit.program):
            continue
        if not part.call:
            read = read_action(outcome.value, MAX_AT_ONCE)
            actions[key] = () if isinstance(read, Finish | Unreadable) else read
            continue
        asked = actions.get(key.rpartition("c")[0], ())
        if part.call <= len(asked):
            action = asked[part.call - 1]
            given = ", ".join(f"{name}={shown(value)}" for name, value in action.args.items())
            made = f"@{action.tool} ({cut(given, _ACTION)})"
            yield f"{made} = {shown(outcome.value)}  ·  called in turn {part.turn}, event {outcome.seq}"


def _head(flow: Flow, words: Wording) -> str:
    item = "" if flow.item is None else f"[{flow.item}] "
    match flow.role:
        case Role.CONDITION:
            return f"{item}if {words.expression(flow.argument)}: " if flow.argument else f"{item}if: "
        case Role.SOURCE:
            return "for each of: " if flow.item is None else "member of: "
        case Role.MESSAGE:
            return "message: "
        case Role.ARGUMENT:
            return f"{item}{flow.argument}: " if flow.argument else item


def node_line(lineage: Lineage, node: Node, words: Wording) -> str:
    """Returns a line for a node: its name, its value, its origin and the event of its write."""
    write = lineage.writes[node.write]
    value = shown(lineage.value_at(node))
    if write.value == WITHHELD:
        value = "withheld, it is computed from a sealed value"
    return f"{place_in(write, node.path, words)} = {value}  ·  {_origin(lineage, node.write, words)}"


def _origin(lineage: Lineage, number: int, words: Wording) -> str:
    write = lineage.writes[number]
    if write.made is ValueSource.INPUT:
        return "given to the run"
    if write.made is ValueSource.PLAN:
        return "in the plan"
    if write.made is ValueSource.EDIT:
        return f"set by hand in the fork, event {write.seq}"
    step = visit_line(lineage, lineage.visits[write.visit], words)
    failed = _FAILED.get(write.made, "")
    odd = ", does not fit its cast" if write.is_odd else ""
    outcomes = map(lineage.outcomes.get, lineage.keys_of(lineage.visits[write.visit]))
    said = next((f", {each.label}" for each in outcomes if each is not None and each.label), "")
    if isinstance(lineage, TreeLineage) and write.visit in lineage.unused:
        said += f": {lineage.unused[write.visit]}"
    return f"{step}{failed}, event {write.seq}{odd}{said}"


def visit_line(lineage: Lineage, visit: Visit, words: Wording) -> str:
    """Returns the label of a visit and what its step does."""
    line = f"{lineage.label(visit)} {cut(described(lineage, visit, words), _ACTION)}"
    where = ""
    if isinstance(lineage, TreeLineage):
        where = lineage.lines.get(lineage.site(visit).statement.id, "")
    return f"{line}  ·  {where}" if where else line


def place_in(write: Write, path: Path, words: Wording) -> str:
    """Returns what was written, with a path in it, in the notation of plans; without `$` if no variable."""
    is_bare = write.made in UNNAMED
    return words.result(write.name, path) if is_bare else words.variable(write.name, path)


def described(lineage: Lineage, visit: Visit, words: Wording) -> str:
    """Returns what the step of a visit does: its action, or in a plan with blocks the statement."""
    if not isinstance(lineage, TreeLineage):
        return describe_action(lineage.step(visit).action)
    return words.statement(lineage.site(visit).statement)


def shown(value: JSON) -> str:
    """Returns a value as JSON on one line, cut."""
    return cut(printable(json_head(value, 4 * _VALUE)[: 4 * _VALUE]), _VALUE)


def reached_line(lineage: Lineage, reached: Reached, words: Wording) -> str:
    """Returns a line for a call that a value reached: key, tool, effect, events, and the value's role."""
    outcome = lineage.outcomes.get(reached.key)
    left = lineage.left.get(reached.key)
    result = "no outcome" if outcome is None else f"{outcome.type} at event {outcome.seq}"
    into = use_of(reached.role, reached.argument)
    tool = words.tool(reached.tool)
    return f"{reached.key} {tool} ({reached.effect})  left at event {left}, {result}; as {into}"


def use_of(role: Role, argument: str) -> str:
    """Returns what a value was used as: which argument or condition, or else its role."""
    if not argument:
        return str(role)
    word = role if role is Role.CONDITION else Role.ARGUMENT
    return f"its {word} {argument}"


_SAFE = "/@+~*!"
_TYPES = {
    CallKind.HUMAN: "prov:Person",
}
_DATA = (Role.ARGUMENT, Role.SOURCE)


def prov_of(
    run_id: str, plan_hash: str, lineage: Lineage, times: Mapping[int, float], *, content: bool = False
) -> dict[str, Any]:
    """Returns the PROV-JSON document of a run.

    `times` has the times of events by number, in seconds since 1970. With `content`, values are included.
    """
    return _Document(run_id, plan_hash, lineage, times, content).document()


class _Document:
    def __init__(
        self, run_id: str, plan_hash: str, lineage: Lineage, times: Mapping[int, float], content: bool
    ) -> None:
        self._lineage = lineage
        self._times = times
        self._content = content
        self._plan = f"run:plan-{plan_hash[:12]}"
        self._ends = {write.visit: write.seq for write in lineage.writes if write.visit != NONE}
        self._ends |= {failure.visit: failure.seq for failure in lineage.failures}
        self._relations: dict[str, dict[str, dict[str, str]]] = {}
        self._entities: dict[str, dict[str, Any]] = {
            self._plan: {"prov:type": _name("prov:Plan"), "callsheet:hash": plan_hash}
        }
        self._activities: dict[str, dict[str, Any]] = {}
        self._agents: dict[str, dict[str, Any]] = {}
        self._prefixes = {
            "run": f"urn:callsheet:run:{quote(run_id, safe='')}:",
            "tool": "urn:callsheet:tool:",
            "callsheet": "urn:callsheet:term:",
        }

    def document(self) -> dict[str, Any]:
        for write in self._lineage.writes:
            attributes: dict[str, Any] = {
                "prov:label": f"${write.name}",
                "callsheet:made": str(write.made),
            }
            if write.made in UNNAMED:
                attributes["prov:label"] = write.name
            if self._content:
                attributes["prov:value"] = as_text(write.value)
            self._entities[_entity(write.id)] = attributes
        for visit in self._lineage.visits:
            if not visit.skipped:
                self._visit(visit)
        if isinstance(self._lineage, TreeLineage):
            self._relate_parts(self._lineage)
        return {
            "prefix": self._prefixes,
            "entity": self._entities,
            "activity": self._activities,
            "agent": self._agents,
            **self._relations,
        }

    def _relate_parts(self, lineage: TreeLineage) -> None:
        """Relate what is not the result of its visit: members of loops, inputs of sub-plans, failures."""
        for write in lineage.writes:
            if write.visit == NONE or lineage.write_of.get(write.visit) == write.id:
                continue
            sources = dict.fromkeys(part.flow.node.write for part in lineage.parts_of(write.id))
            for source in sources:
                if source != NONE:
                    ends = {"prov:generatedEntity": _entity(write.id), "prov:usedEntity": _entity(source)}
                    self._relate("wasDerivedFrom", **ends)

    def _visit(self, visit: Visit) -> None:
        lineage = self._lineage
        activity = f"run:{quote(lineage.prefix(visit), safe=_SAFE)}"
        began = self._times.get(visit.seq)
        ended = self._times.get(self._ends.get(visit.id, 0))
        self._activities[activity] = {
            **({} if began is None else {"prov:startTime": _moment(began)}),
            **({} if ended is None or began is None else {"prov:endTime": _moment(max(began, ended))}),
            "prov:label": lineage.label(visit),
        }
        self._associate(visit, activity)
        read: dict[int, bool] = {}
        for use in lineage.reads_of(visit).uses:
            write = lineage.version(visit, use.name)
            if write != NONE and use.role is not Role.MESSAGE:
                read[write] = read.get(write, False) or use.role in _DATA
        written = lineage.write_of.get(visit.id)
        if isinstance(lineage, TreeLineage) and written is not None:
            parts = (part.flow.node.write for part in lineage.parts_of(written))
            read.update((write, True) for write in parts if write != NONE)
        for write in read:
            self._relate("used", **{"prov:activity": activity, "prov:entity": _entity(write)})
        if written is None and lineage.answer != NONE and lineage.writes[lineage.answer].visit == visit.id:
            written = lineage.answer
        if written is None:
            return
        own = _entity(written)
        self._relate("wasGeneratedBy", **{"prov:entity": own, "prov:activity": activity})
        for write, is_data in read.items():
            if is_data:
                derived = {"prov:generatedEntity": own, "prov:usedEntity": _entity(write)}
                self._relate("wasDerivedFrom", **derived, **{"prov:activity": activity})

    def _associate(self, visit: Visit, activity: str) -> None:
        """Associates a visit with the agent that executed it: the tool, or callsheet itself."""
        call = self._lineage.step(visit).call
        name, kind = ("callsheet", None) if call is None else (call.tool, call.kind)
        agent = f"tool:{quote(name, safe=_SAFE)}"
        attributes = _TYPES.get(kind, "prov:SoftwareAgent") if kind is not None else "prov:SoftwareAgent"
        self._agents[agent] = {"prov:type": _name(attributes), "prov:label": name}
        self._relate(
            "wasAssociatedWith", **{"prov:activity": activity, "prov:agent": agent, "prov:plan": self._plan}
        )

    def _relate(self, relation: str, **ends: str) -> None:
        of_kind = self._relations.setdefault(relation, {})
        of_kind[f"_:{relation}{len(of_kind) + 1}"] = ends


def _entity(write: int) -> str:
    return f"run:w{write + 1}"


def _name(qualified: str) -> dict[str, str]:
    return {"$": qualified, "type": "prov:QUALIFIED_NAME"}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(round(seconds, 6), UTC).isoformat(timespec="microseconds")
