"""Exports the provenance of a run's values as PROV-JSON (W3C PROV data model).

In: a lineage, and the times of events. Out: JSON data. Each write of a variable is an entity, each visit of a
step an activity, each tool, model or person an agent. A visit `used` what it read. Its result
`wasDerivedFrom` the writes that went into its arguments or its FOREACH source.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from callsheet.ir import CallKind
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import NONE, Lineage, ValueSource, Visit
from callsheet.trace.lineage.reads import Role
from callsheet.views.otel.operations import as_text

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
            if write.made in (ValueSource.ANSWER, ValueSource.INNER):
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
