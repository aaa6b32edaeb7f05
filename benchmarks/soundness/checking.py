"""One random plan: is it accepted, and if it is, does it keep what it is held to when it runs?"""

from __future__ import annotations

import re
from typing import NamedTuple

from callsheet.compat import LTPParser, verify_plan
from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.ir.labels import LITERAL, TRUSTED, Label, read_label
from callsheet.machine import Limits, Machine, ToolFacts, compile_plan
from callsheet.passes.verify import verify
from callsheet.policy.model import Audience, Implicit, Policy, SourceRule, ToolRule
from callsheet.runtime.simulated import Simulation

from .drawing import Drawn, draw
from .world import PRIVATE, SECRET, World

_LIMITS = Limits(max_steps=80)
_LINK = re.compile(rf"https?://(?!api\.internal/)(?:(?!,\")\S)*?(?:{PRIVATE}|{SECRET})")
"""A link to a stranger with data in it; in the text of a list it ends where its member ends."""
_MAIL = ToolRule(
    egress=True, control=("to",), audience_arg="to", trusted_audience=("*@corp.example",), destructive=False
)
_LOCAL = ToolRule(egress=False, destructive=False, returns=LITERAL)


class Outcome(NamedTuple):
    """What came of a plan: if it could be read, what each verifier said, what it did against its proof."""

    valid: bool
    accepted: bool = False
    documented: bool = False
    breaches: tuple[str, ...] = ()


def policy_of(drawn: Drawn) -> Policy:
    """The policy of a random plan."""
    return Policy(
        audiences=(Audience(name=TRUSTED, hosts=("api.internal",)),),
        sources=(
            SourceRule(kind="file", pattern="**/.env", label=Label(True, frozenset())),
            SourceRule(kind="file", pattern="docs/**", label=Label(True)),
            SourceRule(kind="file", pattern="public/**", label=Label(True)),
        ),
        tools={"@SEND_EMAIL": _MAIL, "@ECHO": _LOCAL, "@FILL": _LOCAL},
        implicit=Implicit(drawn.implicit),
        memory=read_label(drawn.memory),
        approved=drawn.approved,
    )


def check(seed: int) -> Outcome:
    """Draw the plan of this number, prove it, and run it in every world if it is accepted."""
    drawn = draw(seed)
    result = parse(drawn.text)
    if result.plan is None or any(d.severity.value == "error" for d in result.diagnostics):
        return Outcome(False)
    accepted = verify(result.plan, policy_of(drawn)).ok
    documented_plan = LTPParser.parse(drawn.text)
    documented = documented_plan is not None and verify_plan(documented_plan).ok
    breaches = breaches_of(result.plan, drawn, seed) if accepted else ()
    return Outcome(True, accepted, documented, tuple(breaches))


def breaches_of(plan: Plan, drawn: Drawn, seed: int) -> list[str]:
    """What runs of a plan give away that they must not."""
    base = _run(plan, drawn, seed, frozenset())
    found = list(dict.fromkeys(_marks(base)))
    for turned, audiences in (
        ("private", ("outside",)),
        ("secret", ("outside", "trusted", "model")),
        ("stranger", ("host",)),
    ):
        other = _run(plan, drawn, seed, frozenset({turned}))
        found += list(dict.fromkeys(_marks(other)))
        for audience in audiences:
            if _can_tell(base, other, audience):
                found.append(f"{audience} can tell what {turned} sources say")
    return found


def _run(plan: Plan, drawn: Drawn, seed: int, turned: frozenset[str]) -> World:
    world = World(seed, turned, drawn.approved)
    if drawn.memory == "T/pub":
        world.facts = ["an old fact"]
        world.notes = {"k": "old", "z": "old"}
    program = compile_plan(plan, {"FORMAT": ToolFacts(parameters=("text",))})
    result = Simulation(Machine(program, _LIMITS), world.answer).run()
    answer = result.response
    world.was_cut = result.refusal is not None
    if _LINK.search(answer):
        world.breaches.append("an answer links private data")
    return world


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
