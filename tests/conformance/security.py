"""The area `security`: a plan and a policy; the plan is accepted or refused before anything runs.

In: a case. Out: its differences. Converts the policy's form in the cases to the product's form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.conformance.form import BadCase

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.frontends.dag import parse_dag
from callsheet.frontends.ltp import parse
from callsheet.frontends.micro import parse_micro
from callsheet.frontends.values.reader import ParseResult
from callsheet.ir import Plan
from callsheet.ir.labels import LITERAL, TRUSTED, UNKNOWN, Label, read_label
from callsheet.passes.verify import verify
from callsheet.policy.model import (
    AgentRule,
    Audience,
    CallRule,
    Implicit,
    Policy,
    ReplanRule,
    SourceRule,
    ToolRule,
    When,
)

_NEEDED = ("id", "plan", "must")
_VERDICTS = ("refuse", "accept")
_BASE: dict[str, Any] = {
    "trusted_hosts": ["api.internal", "*.corp.example"],
    "egress_hosts": None,
    "public_paths": ["README.md", "docs/**", "public/**"],
    "secret_paths": [
        ".env", "**/.env", ".env.*", "**/*.pem", "*.pem", "**/id_rsa*", "**/.ssh/**", "**/.aws/**",
        "**/*secret*", "*secret*", "**/credentials*",
    ],
    "host_read": ["/var/log/**"],
    "exec": {"network": False},
    "implicit": "bounded",
    "approved": [],
    "declassify": [],
    "dynamic": {"agent": None, "replan": None},
    "allowed_tools": None,
    "denied_tools": [],
    "max_steps": 50,
    "max_retries": 5,
    "tools": {},
    "memory_default": "U/priv",
    "planner_context": "T/pub",
    "trusted_sources": [],
    "rules": [],
    "forbidden": [
        "AKIA[0-9A-Z]{16}", "-----BEGIN [A-Z ]*PRIVATE KEY-----", "\\bsk-[A-Za-z0-9]{20,}\\b",
        "\\bghp_[A-Za-z0-9]{30,}\\b",
    ],
}  # fmt: skip
"""What a case's policy overrides, key by key."""


@dataclass(frozen=True, slots=True)
class SecurityCase:
    """One case: a plan, what its policy overrides, and whether it may run."""

    id: str
    plan: Any
    must: str
    policy: Mapping[str, Any]


def read_security_cases(path: Path) -> list[SecurityCase]:
    """All cases of a file; raises BadCase, or OSError for a file that cannot be read."""
    cases: list[SecurityCase] = []
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if line.strip():
            try:
                cases.append(_case_of(json.loads(line)))
            except (ValueError, BadCase) as error:
                raise BadCase(f"{path}, line {number}: {error}") from None
    return cases


def _case_of(data: Any) -> SecurityCase:
    if not isinstance(data, dict):
        raise BadCase("a case is a JSON object")
    missing = [name for name in _NEEDED if name not in data]
    if missing:
        raise BadCase(f"a case has {', '.join(missing)}")
    if data["must"] not in _VERDICTS:
        raise BadCase(f"case {data['id']} must {data['must']!r}; a plan is refused or accepted")
    unknown = sorted(set(data.get("policy") or {}) - set(_BASE))
    if unknown:
        raise BadCase(f"the policy of case {data['id']} has {', '.join(unknown)}, which nobody reads")
    return SecurityCase(data["id"], data["plan"], data["must"], data.get("policy") or {})


def differences(case: SecurityCase) -> list[str]:
    """The differences from the case: at most that the verdict differs."""
    reasons = refusals(case)
    if case.must == "refuse":
        return [] if reasons else ["expected the plan to be refused; nothing speaks against it"]
    return [f"expected the plan to be accepted; found {reason}" for reason in reasons]


def refusals(case: SecurityCase) -> list[str]:
    """The objections to the plan of a case: of its text, then of the proof."""
    plan, errors = read_plan(case.plan)
    if plan is None or errors:
        return [error.message for error in errors] or ["the text is no plan"]
    return [str(violation) for violation in verify(plan, policy_of(case.policy)).violations]


def read_plan(plan: Any) -> tuple[Plan | None, list[Diagnostic]]:
    """The plan of a case, and the errors in its text."""
    try:
        found = _parsed(plan)
    except CallsheetError as error:
        return None, list(error.diagnostics)
    return found.plan, [d for d in found.diagnostics if d.severity is Severity.ERROR]


def _parsed(plan: Any) -> ParseResult:
    """LTP text, a graph of steps, or `{"micro": text}`."""
    if isinstance(plan, str):
        return parse(plan)
    return parse_micro(plan["micro"]) if plan.keys() == {"micro"} else parse_dag(json.dumps(plan))


def policy_of(overrides: Mapping[str, Any]) -> Policy:
    """The policy for the fields of a case."""
    return _policy(json.dumps({**overrides}))


@cache
def _policy(overrides: str) -> Policy:
    said = {**_BASE, **json.loads(overrides)}
    dynamic = said["dynamic"]
    agent, replan = dynamic.get("agent"), dynamic.get("replan")
    allowed = said["allowed_tools"]
    return Policy(
        name="case",
        audiences=(Audience(name=TRUSTED, hosts=tuple(said["trusted_hosts"])),),
        sources=tuple(_sources(said)),
        tools={name: _tool(rule) for name, rule in said["tools"].items()},
        allowed_tools=None if allowed is None else frozenset(allowed),
        denied_tools=frozenset(said["denied_tools"]),
        egress_hosts=None if said["egress_hosts"] is None else tuple(said["egress_hosts"]),
        host_read=tuple(said["host_read"]),
        exec_network=bool(said["exec"].get("network")),
        implicit=Implicit(said["implicit"]),
        memory=read_label(said["memory_default"]),
        planner=read_label(said["planner_context"]),
        agent=None if agent is None else AgentRule(**{**agent, "tools": tuple(agent.get("tools", ()))}),
        replan=None if replan is None else ReplanRule(**replan),
        approved=frozenset(said["approved"]),
        declassify=frozenset(said["declassify"]),
        forbidden=tuple(said["forbidden"]),
        rules=tuple(CallRule(**rule) for rule in said["rules"]),
        max_steps=said["max_steps"],
        max_retries=said["max_retries"],
    )


def _sources(said: Mapping[str, Any]) -> list[SourceRule]:
    """The labels of places: secrets first, then trusted ones, then public ones."""
    secret = [
        SourceRule(kind="file", pattern=p, label=Label(True, frozenset())) for p in said["secret_paths"]
    ]
    public = [SourceRule(kind="file", pattern=p, label=Label(True)) for p in said["public_paths"]]
    trusted = [rule for name in said["trusted_sources"] for rule in _trusted(name, said)]
    return [*secret, *trusted, *public]


def _trusted(name: str, said: Mapping[str, Any]) -> list[SourceRule]:
    """A source that is trusted: `file:…`, `url:…`, `memory`, `@TOOL`, or a bare host, path or tool."""
    kind, colon, rest = name.partition(":")
    if name == "memory":
        return [
            SourceRule(
                kind="memory", pattern="", label=Label(False, read_label(said["memory_default"]).readers)
            )
        ]
    if not colon or kind not in ("file", "url", "host", "tool"):
        if name.startswith("@"):
            return [SourceRule(kind="tool", pattern=name, label=Label(False, UNKNOWN.readers))]
        kinds = ("file",) if "/" in name else ("file", "url")
        return [SourceRule(kind=kind, pattern=name, label=_trusted_label(kind, name, said)) for kind in kinds]
    return [SourceRule(kind=kind, pattern=rest, label=_trusted_label(kind, rest, said))]


def _trusted_label(kind: str, pattern: str, said: Mapping[str, Any]) -> Label:
    is_private = (
        kind == "file"
        and pattern not in said["public_paths"]
        and not pattern.startswith(("docs/", "public/"))
    )
    return Label(False, UNKNOWN.readers) if is_private or pattern in said["trusted_hosts"] else LITERAL


def _tool(rule: Mapping[str, Any]) -> ToolRule:
    """An entry of a tool; unless stated otherwise it does not send or destroy."""
    return ToolRule(
        egress=rule.get("egress", False),
        control=tuple(rule.get("control", ())),
        audience_arg=rule.get("audience_arg"),
        trusted_audience=tuple(rule.get("trusted_audience", ())),
        destructive=rule.get("destructive", False),
        idempotent=rule.get("idempotent", False),
        approval=When(rule.get("approval", "never")),
        returns=read_label(rule["returns"]) if "returns" in rule else UNKNOWN,
        no_echo=rule.get("no_echo", False),
    )
