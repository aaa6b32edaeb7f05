"""Checks one random plan: whether it is accepted, and whether its runs keep its proof and its policy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from callsheet.compat import LTPParser, verify_plan
from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.ir.labels import LITERAL, TRUSTED, Label, read_label
from callsheet.machine import Limits, Machine, Status, ToolFacts, compile_plan
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.passes.verify import verify
from callsheet.policy.calls import Duty
from callsheet.policy.model import Audience, Implicit, Policy, SourceRule, ToolRule
from callsheet.runtime.simulated import Simulation

from .drawing import Drawn, draw
from .graphs import draw_graph, graph_of
from .world import PRIVATE, SECRET, World

_LIMITS = Limits(max_steps=80)
_FACTS = {"FORMAT": ToolFacts(parameters=("text",))}
_LINK = re.compile(rf"https?://(?!api\.internal/)(?:(?!,\")\S)*?(?:{PRIVATE}|{SECRET})")
"""A link to a stranger with data in it; in the text of a list it ends where its member ends."""
_MAIL = ToolRule(
    egress=True, control=("to",), audience_arg="to", trusted_audience=("*@corp.example",), destructive=False
)
_LOCAL = ToolRule(egress=False, destructive=False, returns=LITERAL)
_VAULT = ToolRule(egress=False, destructive=False, returns=Label(True, frozenset()))


class Outcome(NamedTuple):
    """The result of a plan: whether it is valid, the verdicts, the breaches of its proof."""

    valid: bool
    accepted: bool = False
    documented: bool = False
    breaches: tuple[str, ...] = ()
    stopped: bool = False
    """Whether a run under the policy was ended by it."""
    surprises: bool = False
    """Whether that was so at a step of which the proof says no duty: the run was held to more."""


class _Case(NamedTuple):
    """A plan, with what its policy says and what a run has to see to by its proof."""

    plan: Plan
    drawn: Drawn
    seed: int
    policy: Policy
    duties: frozenset[str]


def policy_of(drawn: Drawn) -> Policy:
    """The policy of a random plan."""
    return Policy(
        audiences=(Audience(name=TRUSTED, hosts=("api.internal",)),),
        sources=(
            SourceRule(kind="file", pattern="**/.env", label=Label(True, frozenset())),
            SourceRule(kind="file", pattern="docs/**", label=Label(True)),
            SourceRule(kind="file", pattern="public/**", label=Label(True)),
        ),
        tools={"@SEND_EMAIL": _MAIL, "@ECHO": _LOCAL, "@FILL": _LOCAL, "@VAULT": _VAULT},
        implicit=Implicit(drawn.implicit),
        memory=read_label(drawn.memory),
        approved=drawn.approved,
    )


def check(seed: int, *, is_enforced: bool = False) -> Outcome:
    """Draw the plan of this number, prove it, and run it in every world if it is accepted.

    With `is_enforced` it is run under its policy besides, whether it is accepted or not.
    """
    drawn = draw(seed)
    result = parse(drawn.text)
    if result.plan is None or any(d.severity.value == "error" for d in result.diagnostics):
        return Outcome(False)
    documented_plan = LTPParser.parse(drawn.text)
    documented = documented_plan is not None and verify_plan(documented_plan).ok
    return _checked(result.plan, drawn, seed, is_enforced)._replace(documented=documented)


def check_graph(seed: int, *, is_enforced: bool = False) -> Outcome:
    """As `check`, for the graph of this number, which the documented rule knows nothing of."""
    drawn = draw_graph(seed)
    plan = graph_of(drawn.text, seed)
    return Outcome(False) if plan is None else _checked(plan, drawn, seed, is_enforced)


def _checked(plan: Plan, drawn: Drawn, seed: int, is_enforced: bool) -> Outcome:
    policy = policy_of(drawn)
    verdict = verify(plan, policy)
    duties = frozenset(o.step for o in verdict.obligations if o.kind in (Duty.VERIFY_AGAIN, Duty.SSRF_GUARD))
    case = _Case(plan, drawn, seed, policy, duties)
    breaches = list(breaches_of(case, _run)) if verdict.ok else []
    stopped = surprises = False
    if is_enforced:
        refused: list[str] = []

        def enforced(own: _Case, turned: frozenset[str]) -> World:
            world, objected = _run_enforced(own, turned)
            refused.extend(objected)
            return world

        breaches += [f"under the policy: {breach}" for breach in breaches_of(case, enforced)]
        stopped = bool(refused)
        surprises = verdict.ok and any(step not in duties for step in refused)
    return Outcome(True, verdict.ok, False, tuple(dict.fromkeys(breaches)), stopped, surprises)


def breaches_of(case: _Case, run: Callable[[_Case, frozenset[str]], World]) -> list[str]:
    """The forbidden disclosures in runs of a plan."""
    base = run(case, frozenset())
    found = list(dict.fromkeys(_marks(base)))
    for turned, audiences in (
        ("private", ("outside",)),
        ("secret", ("outside", "trusted", "model")),
        ("stranger", ("host",)),
    ):
        other = run(case, frozenset({turned}))
        found += list(dict.fromkeys(_marks(other)))
        for audience in audiences:
            if _can_tell(base, other, audience):
                found.append(f"{audience} can tell what {turned} sources say")
    return found


def _world(case: _Case, turned: frozenset[str], *, is_enforced: bool) -> World:
    drawn = case.drawn
    memory = read_label(drawn.memory)
    world = World(case.seed, turned, drawn.approved, is_enforced=is_enforced, memory=memory)
    if drawn.memory == "T/pub":
        world.facts = ["an old fact"]
        world.notes = {"k": "old", "z": "old"}
    return world


def _run(case: _Case, turned: frozenset[str]) -> World:
    """A run that nothing holds to its proof; of one that fails a duty may say what is not shown."""
    world = _world(case, turned, is_enforced=False)
    result = Simulation(Machine(compile_plan(case.plan, _FACTS), _LIMITS), world.answer).run()
    world.was_cut = result.refusal is not None
    if (result.ended_at or "") not in case.duties or result.status is Status.DONE:
        _look(world, result.response)
    return world


def _run_enforced(case: _Case, turned: frozenset[str]) -> tuple[World, list[str]]:
    """A run under the policy, and the step at which the policy ended it."""
    world = _world(case, turned, is_enforced=True)
    machine = Machine(compile_plan(case.plan, _FACTS), _LIMITS, enforcement=Enforcement.under(case.policy))
    result = Simulation(machine, world.answer).run()
    objection = result.objection
    world.was_cut = result.refusal is not None or objection is not None
    _look(world, result.response)
    if any(map(_LINK.search, world.mails)):
        world.breaches.append("a mail links private data")
    if SECRET in result.response and "app/.env" not in case.drawn.text:  # of which a yes makes it the user's
        world.breaches.append("an answer shows a secret")
    return world, [] if objection is None else [objection.step]


def _look(world: World, answer: str) -> None:
    if _LINK.search(answer):
        world.breaches.append("an answer links private data")


def _marks(world: World) -> list[str]:
    found = list(world.breaches)
    for text in world.seen.get("outside", ()):
        found += [f"outside sees {mark}" for mark in (PRIVATE, SECRET) if mark in text]
    for audience in ("trusted", "model"):
        found += [f"{audience} sees a secret" for text in world.seen.get(audience, ()) if SECRET in text]
    return found


def _can_tell(one: World, other: World, audience: str) -> bool:
    """Whether an audience saw different things; a run that its budget has cut off may have shown less."""
    first, second = one.seen.get(audience, []), other.seen.get(audience, [])
    if one.was_cut or other.was_cut:
        return any(a != b for a, b in zip(first, second, strict=False))
    return first != second
