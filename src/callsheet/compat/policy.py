"""The documented verifier: checks a plan statically against a policy of tools, budget and order.

It proves what the document states: which tools, how many steps, no egress after a sensitive read on any
path, no step that would run steps outside the plan, no argument with a forbidden pattern. If something is not
known before the run (a language in a variable), the worst case counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from callsheet.compat.models import REPLAN, LTPPlan, argument, documented_tool, plan_of, tool_of
from callsheet.ir import DictExpr, Ending, ListExpr, Literal, Plan, Step, Template, Value
from callsheet.ir.flow import flow_of
from callsheet.ir.linear_patterns import Patterns
from callsheet.machine import to_text
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy

EGRESS = frozenset({"WEB_SEARCH", "FETCH_PAGE"})
SENSITIVE = frozenset({"READ_FILE", "HOST_FILE_READ", "HOST_FILE_LIST", "QUERY_MEMORY", "GET_WM"})
ESCAPE_HATCHES = frozenset({"AGENT_SOLVE", "AGENT_CRITIQUE", "CONSENSUS", "SELF_REFINE"})
CONTROL_WORDS = frozenset({"RESPOND", "TERMINATE", "GOTO"})
"""Allowed by every allowlist. RE-PLAN is not included, because its steps are not known in advance."""
SHELLS = frozenset(
    {"shell", "sh", "bash", "dash", "zsh", "ksh", "fish", "cmd", "batch", "powershell", "pwsh"}
)
DEFAULT_FORBIDDEN_ARGS: tuple[str, ...] = (
    r"AKIA[0-9A-Z]{16}",
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----",
    r"/etc/(?:shadow|passwd)",
    r"sk-[A-Za-z0-9_-]{20,}",
)
_WHOLE_PLAN = "plan"


@dataclass(frozen=True, slots=True)
class PlanPolicy:
    """The rules for a plan; every field is optional.

    Tools are given by the names that plans or executors use, in any case. `forbidden_arg_patterns` are RE2
    regular expressions, whose matching time is linear: no lookaround or backreferences, and `\\d`, `\\w`,
    `\\s`, `\\b` are ASCII. Raises ValueError for an invalid pattern, and for a string where a collection of
    strings is expected.
    """

    allowed_tools: Collection[str] | None = None
    denied_tools: Collection[str] = frozenset()
    max_steps: int | None = None
    no_egress_after_sensitive: bool = True
    no_escape_hatches: bool = True
    forbidden_arg_patterns: Collection[str] = DEFAULT_FORBIDDEN_ARGS

    def __post_init__(self) -> None:
        for name in ("allowed_tools", "denied_tools", "forbidden_arg_patterns"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is a string; give a collection of strings")
        self.patterns()

    def to_policy(self, base: Policy | None = None) -> Policy:
        """`base` with these tools, step limit and patterns, for callsheet's own proof.

        The proof follows data, while the rules here consider the order of steps. What may leave and what
        agents may do is decided by `base`; `no_egress_after_sensitive` and `no_escape_hatches` are not
        converted.
        """
        allowed = None if self.allowed_tools is None else frozenset(map(documented_tool, self.allowed_tools))
        return replace(
            base or Policy(),
            allowed_tools=allowed,
            denied_tools=frozenset(map(documented_tool, self.denied_tools)),
            max_steps=self.max_steps,
            forbidden=tuple(self.forbidden_arg_patterns),
        )

    def patterns(self) -> Patterns:
        """The compiled forbidden patterns; raises ValueError for an invalid one."""
        try:
            return Patterns(tuple(self.forbidden_arg_patterns))
        except ValueError as error:
            raise ValueError(f"forbidden_arg_patterns: {error}") from None


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a step violates; `step_id` is `plan` for a rule about the whole plan."""

    step_id: str
    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class PlanVerdict:
    """Whether a plan may run, and the violations."""

    violations: list[Violation] = field(default_factory=list[Violation])

    @property
    def ok(self) -> bool:
        """Whether there are no violations."""
        return not self.violations

    def __bool__(self) -> bool:
        return self.ok

    def reason(self) -> str:
        """All violations in one text; empty for a plan that may run."""
        return "; ".join(f"[{v.step_id}] {v.rule}: {v.detail}" for v in self.violations)


def verify_plan(plan: LTPPlan, policy: PlanPolicy | Policy | None = None) -> PlanVerdict:
    """Check a plan against a policy (by default `PlanPolicy()`); runs nothing.

    For a `Policy` of callsheet's own, its data-flow proof is used; see `docs/policy.md`.

    >>> from callsheet.compat import LTPParser
    >>> plan = LTPParser.parse('S1: @HOST_EXEC (command="ls") > $o')
    >>> verify_plan(plan, PlanPolicy(denied_tools={"@HOST_EXEC"})).reason()
    '[S1] denied_tools: @HOST_EXEC is denied'
    """
    if isinstance(policy, Policy):
        return PlanVerdict(list(_proved(plan_of(plan), policy)))
    return PlanVerdict(list(_violations(plan_of(plan), policy or PlanPolicy())))


def _proved(plan: Plan, policy: Policy) -> Iterator[Violation]:
    for violation in verify(plan, policy).violations:
        yield Violation(violation.step or _WHOLE_PLAN, violation.rule, str(violation).partition(": ")[2])


def _violations(plan: Plan, policy: PlanPolicy) -> Iterator[Violation]:
    if policy.max_steps is not None and len(plan.steps) > policy.max_steps:
        detail = f"the plan has {len(plan.steps)} steps, its budget is {policy.max_steps}"
        yield Violation(_WHOLE_PLAN, "max_steps", detail)
    patterns = policy.patterns()
    after_sensitive = _after_sensitive(plan) if policy.no_egress_after_sensitive else set[int]()
    for number, step in enumerate(plan.steps):
        name, tools = tool_of(step), _tools(step)
        yield from _tool_violations(step, policy)
        if number in after_sensitive and EGRESS & tools:
            detail = f"{name} sends data out on a path after a sensitive read"
            yield Violation(step.id, "no_egress_after_sensitive", detail)
        matched = {pattern for text in _argument_texts(step) for pattern in _patterns_in(patterns, text)}
        for pattern in filter(matched.__contains__, policy.forbidden_arg_patterns):
            detail = f"an argument of {name} matches {pattern}"
            yield Violation(step.id, "forbidden_arg_patterns", detail)


def _patterns_in(patterns: Patterns, text: str) -> Iterator[str]:
    """The patterns found in a text; `$` also matches before a line break at the end of the text."""
    yield from patterns.found_in(text)
    if text.endswith("\n"):
        yield from patterns.found_in(text[:-1])


def _tool_violations(step: Step, policy: PlanPolicy) -> Iterator[Violation]:
    name, tools = tool_of(step), _tools(step) or {tool_of(step).removeprefix("@")}
    denied_tools = {documented_tool(tool) for tool in policy.denied_tools}
    # Both reach the executor execute_code, so a shell is code too.
    denied = sorted((tools | {"EXEC_CODE"} if "SHELL_EXEC" in tools else tools) & denied_tools)
    if denied:
        of = "" if denied == [name.removeprefix("@")] else f" (as {', '.join(f'@{tool}' for tool in denied)})"
        yield Violation(step.id, "denied_tools", f"{name} is denied{of}")
    if policy.allowed_tools is not None:
        missing = sorted(tools - CONTROL_WORDS - {documented_tool(tool) for tool in policy.allowed_tools})
        if missing:
            of = ", ".join(tool if tool == REPLAN else f"@{tool}" for tool in missing)
            yield Violation(step.id, "allowed_tools", f"{of} is not among the allowed tools")
    if policy.no_escape_hatches and (step.course.ends is Ending.NEW_PLAN or tools & ESCAPE_HATCHES):
        yield Violation(step.id, "no_escape_hatches", f"{name} would run steps that are not in the plan")


def _tools(step: Step) -> set[str]:
    """The tools that a step may call; code in a shell or an unknown language also counts as SHELL_EXEC."""
    if step.call is None:
        return set()
    tool = documented_tool(step.call.tool)
    if tool != "EXEC_CODE":
        return {tool}
    match argument(step.call, "language"):
        case None:
            return {tool}
        case Literal(value=language) if to_text(language).strip().lower() not in SHELLS:
            return {tool}
        case _:
            return {tool, "SHELL_EXEC"}


def _after_sensitive(plan: Plan) -> set[int]:
    """The steps that can run after a sensitive read has run."""
    flow = flow_of(plan)
    seen: set[int] = set()
    waiting = [n for n, step in enumerate(plan.steps) if _tools(step) & SENSITIVE]
    while waiting:
        for follower in flow.successors[waiting.pop()]:
            if follower not in seen:
                seen.add(follower)
                waiting.append(follower)
    return seen


def _argument_texts(step: Step) -> Iterator[str]:
    """Every text in the arguments of a step and in the message of its ON_FAIL, names included."""
    if step.call is not None:
        for name, _ in step.call.named:
            yield name
    stack: list[Value] = [*step.values(), *step.failure_values()]
    while stack:
        match stack.pop():
            case Literal(value=value):
                yield to_text(value)
            case Template(parts=parts):
                yield "".join(part if isinstance(part, str) else f"${part.name}" for part in parts)
            case ListExpr(items=items):
                stack.extend(items)
            case DictExpr(items=pairs):
                for key, value in pairs:
                    yield key
                    stack.append(value)
            case _:
                continue
