"""The documented verifier: a plan held against a policy of tools, budget and order, never run.

It proves what the document says it proves: which tools, how many steps, no egress on any way
after a sensitive read, no step that would run work unseen, no argument of a forbidden form.
Where a plan does not say what it will do (a language in a variable), the worst counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from callsheet.compat.models import LTPPlan
from callsheet.compat.rebuild import plan_of
from callsheet.compat.shown import tool_of
from callsheet.compat.tools import REPLAN, argument, documented_tool
from callsheet.ir import Call, DictExpr, ListExpr, Literal, Plan, Replan, Step, Template, Value
from callsheet.ir.flow import flow_of
from callsheet.machine import to_text
from callsheet.passes.verify import verify
from callsheet.policy.model import Policy
from callsheet.policy.patterns import Patterns

EGRESS = frozenset({"WEB_SEARCH", "FETCH_PAGE"})
SENSITIVE = frozenset({"READ_FILE", "HOST_FILE_READ", "HOST_FILE_LIST", "QUERY_MEMORY", "GET_WM"})
ESCAPE_HATCHES = frozenset({"AGENT_SOLVE", "AGENT_CRITIQUE", "CONSENSUS", "SELF_REFINE"})
CONTROL_WORDS = frozenset({"RESPOND", "TERMINATE", "GOTO"})
"""What every allowlist has; RE-PLAN, which brings steps that nobody has seen, has to be named."""
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
    """What a plan is held against; every field is optional.

    Tools are named as plans or as executors name them, in any case. `forbidden_arg_patterns`
    are regular expressions of RE2, which takes time linear in the text whatever the pattern: none
    that look around or back, and `\\d`, `\\w`, `\\s`, `\\b` mean ASCII. Raises ValueError for a pattern that
    RE2 cannot read, and for a text where a collection of texts belongs.
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
                raise ValueError(f"{name} is a text; give a collection of texts")
        self.patterns()

    def to_policy(self, base: Policy | None = None) -> Policy:
        """What callsheet's own proof holds a plan against: `base` with these tools, budget and patterns.

        The proof follows data where the rules above look at the order of steps: what leaves, and what agents
        may do, is for `base` to say; `no_egress_after_sensitive` and `no_escape_hatches` have no part in it.
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
        """The forbidden patterns, ready to be looked for; raises ValueError for one that is no pattern."""
        try:
            return Patterns(tuple(self.forbidden_arg_patterns))
        except ValueError as error:
            raise ValueError(f"forbidden_arg_patterns: {error}") from None


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a step breaks; `step_id` is `plan` for a rule about the whole."""

    step_id: str
    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class PlanVerdict:
    """Whether a plan may run, and what speaks against it."""

    violations: list[Violation] = field(default_factory=list[Violation])

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the plan."""
        return not self.violations

    def __bool__(self) -> bool:
        return self.ok

    def reason(self) -> str:
        """All violations in one text; empty for a plan that may run."""
        return "; ".join(f"[{v.step_id}] {v.rule}: {v.detail}" for v in self.violations)


def verify_plan(plan: LTPPlan, policy: PlanPolicy | Policy | None = None) -> PlanVerdict:
    """Hold a plan against a policy (the default one if none is given); runs nothing.

    A `Policy` of callsheet's own is proved by the analysis of where data flows; see `docs/policy.md`.

    >>> from callsheet.compat import LTPParser
    >>> plan = LTPParser.parse('S1: @HOST_EXEC (command="ls") > $o')
    >>> verify_plan(plan, PlanPolicy(denied_tools={"@HOST_EXEC"})).reason()
    '[S1] denied_tools: @HOST_EXEC is denied'
    """
    if isinstance(policy, Policy):
        return PlanVerdict(list(_proved(plan_of(plan), policy)))
    return PlanVerdict(list(_violations(plan_of(plan), policy or PlanPolicy())))


def _proved(plan: Plan, policy: Policy) -> Iterator[Violation]:
    for found in verify(plan, policy).violations:
        yield Violation(found.step or _WHOLE_PLAN, found.rule, str(found).partition(": ")[2])


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
            detail = f"{name} sends data out on a way that has passed a sensitive read"
            yield Violation(step.id, "no_egress_after_sensitive", detail)
        found = {pattern for text in _argument_texts(step) for pattern in _found(patterns, text)}
        for pattern in filter(found.__contains__, policy.forbidden_arg_patterns):
            detail = f"an argument of {name} matches {pattern}"
            yield Violation(step.id, "forbidden_arg_patterns", detail)


def _found(patterns: Patterns, text: str) -> Iterator[str]:
    """The patterns in a text; `$` stands before a line's end at the end of the text, too."""
    yield from patterns.found_in(text)
    if text.endswith("\n"):
        yield from patterns.found_in(text[:-1])


def _tool_violations(step: Step, policy: PlanPolicy) -> Iterator[Violation]:
    name, tools = tool_of(step), _tools(step) or {tool_of(step).removeprefix("@")}
    denied = sorted(tools & {documented_tool(tool) for tool in policy.denied_tools})
    if denied:
        of = "" if denied == [name.removeprefix("@")] else f" (as {', '.join(f'@{tool}' for tool in denied)})"
        yield Violation(step.id, "denied_tools", f"{name} is denied{of}")
    if policy.allowed_tools is not None:
        missing = sorted(tools - CONTROL_WORDS - {documented_tool(tool) for tool in policy.allowed_tools})
        if missing:
            of = ", ".join(tool if tool == REPLAN else f"@{tool}" for tool in missing)
            yield Violation(step.id, "allowed_tools", f"{of} is not among the allowed tools")
    if policy.no_escape_hatches and (isinstance(step.action, Replan) or tools & ESCAPE_HATCHES):
        yield Violation(step.id, "no_escape_hatches", f"{name} would run work that this proof has not seen")


def _tools(step: Step) -> set[str]:
    """The tools that a step may call: code of a shell, or of who knows what language, is a shell's."""
    if not isinstance(step.action, Call):
        return set()
    tool = documented_tool(step.action.tool)
    if tool != "EXEC_CODE":
        return {tool}
    match argument(step.action, "language"):
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
    if isinstance(step.action, Call):
        for name, _ in step.action.named:
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
