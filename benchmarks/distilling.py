"""What plans distilled from recorded sessions do with other inputs: right, stopped, or wrong without a word.

    python -m benchmarks.distilling [--show] [--runs N] [--only SET] [--sessions N]

Fifty sessions of a small office (mails, people, orders, files), and 162 of other jobs in ten sets, are
recorded: for each task a scripted agent makes its calls for one input, or in N runs for one input each. The
agents of the last five sets are distracted (see `distilling_world`). The plan that is distilled runs on
three other inputs, in a world with other data, longer lists, and empty ones. A variant is right if the plan
has changed exactly what the task asks for; stopped if it ended with an error, or has an input that nobody
gave, and has changed nothing else before; and wrong otherwise. The inputs of a variant are what the user says
anew; an input that is no word of the user is not filled in. `--sessions N` distils N sessions of each job, or
N times the runs; each variant that is wrong is printed with its plan.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any, cast

from benchmarks.distilling_world import Agent, Call, Distracted, World, only_reads

from benchmarks import distilling_agencies as agencies
from benchmarks import distilling_cars as cars
from benchmarks import distilling_desk as desk
from benchmarks import distilling_errands as errands
from benchmarks import distilling_housing as housing
from benchmarks import distilling_operations as operations
from benchmarks import distilling_school as school
from benchmarks import distilling_services as services
from benchmarks import distilling_store as store
from benchmarks import distilling_team as team
from callsheet.api.distillation import Distillation, distil_all
from callsheet.api.oneshot import arun
from callsheet.api.plan import Plan
from callsheet.authoring.distillation.recorded_calls import work_in_transcript
from callsheet.authoring.distillation.retelling import Retelling
from callsheet.diagnostics import CallsheetError
from callsheet.ports.calls import ToolFailed
from callsheet.ports.tools import Tool

NAMES = ("ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hana", "ivo", "june")
NUMBERS = ("no", "one", "two", "three", "four", "five")
THINGS = ("lamp", "chair", "desk", "shelf", "clock", "mirror", "carpet")
FIELDS = {
    "read_mail": ("number",),
    "list_mails": ("folder",),
    "find_person": ("name",),
    "list_orders": ("customer",),
    "get_order": ("order_id",),
    "send_mail": ("to", "text"),
    "write_note": ("title", "text"),
}


class Office(World):
    """The office of the first fifty sessions."""

    fields = FIELDS

    def receipt(self, tool: str) -> dict[str, Any]:
        return {"ok": True, "id": f"{tool[0]}-{len(self.done)}"}

    def read_mail(self, number: int) -> dict[str, Any]:
        chance = self.pick("mail", number)
        who = chance.choice(NAMES)
        subject = f"about the {chance.choice(THINGS)} of week {number}"
        return {"from": f"{who}@corp.example", "subject": subject,
                "text": f"week {number}: {chance.randrange(100, 900)} sold"}  # fmt: skip

    def list_mails(self, folder: str) -> list[dict[str, Any]]:
        chance = self.pick("folder", folder)
        numbers = chance.sample(range(10, 99), chance.randrange(2, 5))
        return [{"number": number, **self.read_mail(number)} for number in numbers]

    def find_person(self, name: str) -> dict[str, Any]:
        chance = self.pick("person", name)
        return {"name": name, "email": f"{name}.{chance.randrange(100, 999)}@corp.example",
                "manager": chance.choice([one for one in NAMES if one != name])}  # fmt: skip

    def list_orders(self, customer: str) -> list[dict[str, Any]]:
        chance = self.pick("orders", customer)
        return [{"id": f"O-{chance.randrange(1000, 9999)}", "total": chance.randrange(20, 400),
                 "open": chance.random() < 0.6} for _ in range(chance.randrange(2, 6))]  # fmt: skip

    def get_order(self, order_id: str) -> dict[str, Any]:
        chance = self.pick("order", order_id)
        return {"id": order_id, "item": chance.choice(THINGS), "count": chance.randrange(1, 9)}


@dataclass(frozen=True)
class Task:
    """A task: what the user says, with the places of the inputs, and what the agent does."""

    said: str
    agent: Agent
    inputs: Callable[[random.Random], dict[str, Any]]


def forward(call: Call, given: dict[str, Any]) -> None:
    mail = call("read_mail", number=given["number"])
    call("send_mail", to=given["to"], text=mail["text"])


def answer(call: Call, given: dict[str, Any]) -> None:
    mail = call("read_mail", number=given["number"])
    call("send_mail", to=mail["from"], text=f"Thank you for your mail {mail['subject']}")


def tell_manager(call: Call, given: dict[str, Any]) -> None:
    person = call("find_person", name=given["name"])
    manager = call("find_person", name=person["manager"])
    call("send_mail", to=manager["email"], text=given["text"])


def note_orders(call: Call, given: dict[str, Any]) -> None:
    for order in call("list_orders", customer=given["name"]):
        found = call("get_order", order_id=order["id"])
        call("write_note", title=order["id"], text=f"{found['count']} x {found['item']}")


def forward_all(call: Call, given: dict[str, Any]) -> None:
    for mail in call("list_mails", folder=given["folder"]):
        call("send_mail", to=given["to"], text=mail["text"])


def thank_all(call: Call, given: dict[str, Any]) -> None:
    for mail in call("list_mails", folder=given["folder"]):
        call("send_mail", to=mail["from"], text="Thank you")


def sum_orders(call: Call, given: dict[str, Any]) -> None:
    orders = call("list_orders", customer=given["name"])
    call("write_note", title=given["name"], text=str(sum(order["total"] for order in orders)))


def note_open(call: Call, given: dict[str, Any]) -> None:
    for order in call("list_orders", customer=given["name"]):
        if order["open"]:
            call("write_note", title=order["id"], text="still open")


def note_first(call: Call, given: dict[str, Any]) -> None:
    orders = call("list_orders", customer=given["name"])
    found = call("get_order", order_id=orders[0]["id"])
    call("write_note", title=given["name"], text=found["item"])


def note_largest(call: Call, given: dict[str, Any]) -> None:
    orders = call("list_orders", customer=given["name"])
    call("write_note", title=max(orders, key=lambda one: one["total"])["id"], text="the largest")


def _mail(chance: random.Random) -> dict[str, Any]:
    return {"number": chance.randrange(100, 999), "to": f"{chance.choice(NAMES)}@out.example"}


def _person(chance: random.Random) -> dict[str, Any]:
    return {"name": chance.choice(NAMES), "text": f"please call me about the {chance.choice(THINGS)}"}


def _folder(chance: random.Random) -> dict[str, Any]:
    folder = f"{chance.choice(THINGS)}s"
    return {"folder": folder, "to": f"{chance.choice(NAMES)}@out.example"}


KINDS = (
    Task("send the text of mail {number} to {to}", forward, _mail),
    Task("thank for mail {number}", answer, _mail),
    Task('tell the manager of {name}: "{text}"', tell_manager, _person),
    Task("write a note about each order of {name}", note_orders, _person),
    Task("forward all mails in {folder} to {to}", forward_all, _folder),
    Task("say Thank you to all who wrote to {folder}", thank_all, _folder),
    Task("note what the orders of {name} cost together", sum_orders, _person),
    Task("note the open orders of {name} as still open", note_open, _person),
    Task("note what the first order of {name} is", note_first, _person),
    Task("note the largest order of {name} as the largest", note_largest, _person),
)


Recorded = tuple[str, dict[str, Any], Any]
"""A call with its result, or with the failure of the tool."""


def transcript(said: str, calls: list[Recorded], is_parallel: bool = False) -> str:
    """The session as messages of a model provider; perhaps with reads by one tool asked for at once."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": said}]
    last = ""
    for number, (tool, args, result) in enumerate(calls):
        has_failed = isinstance(result, ToolFailed)
        content = str(result) if has_failed or isinstance(result, str) else json.dumps(result)
        asked = {"type": "tool_use", "id": str(number), "name": tool, "input": args}
        answered = {"type": "tool_result", "tool_use_id": str(number), "is_error": has_failed}
        if not (is_parallel and tool == last and only_reads(tool)):
            messages += [{"role": "assistant", "content": []}, {"role": "user", "content": []}]
        messages[-2]["content"].append(asked)
        messages[-1]["content"].append({**answered, "content": content})
        last = tool
    messages.append({"role": "assistant", "content": [{"type": "text", "text": "Done."}]})
    return json.dumps({"messages": messages})


@dataclass(frozen=True)
class Suite:
    """Tasks in one kind of world, and how many sessions of them are recorded."""

    name: str
    world: type[World]
    tasks: tuple[Task, ...]
    sessions: int
    is_distracted: bool = False
    """Whether the agents also make calls that do not belong to the task, and some at once."""


def session(suite: Suite, task: Task, number: int) -> tuple[str, dict[str, Any]]:
    """The transcript of a session, and what the user had given."""
    calls: list[Recorded] = []
    office = suite.world(number)

    def call(tool: str, **args: Any) -> Any:
        try:
            result = office.call(tool, args)
        except ToolFailed as failure:
            calls.append((tool, args, failure))
            raise
        calls.append((tool, args, result))
        return result

    def fail(tool: str, args: dict[str, Any], message: str) -> None:
        calls.append((tool, args, ToolFailed(message)))

    given: dict[str, Any] = {}
    for attempt in range(20):  # a session in which nothing was to be done shows nothing
        given = task.inputs(random.Random(f"said {number} {attempt}"))
        calls.clear()
        if suite.is_distracted:
            agent = Distracted(call, fail, office, random.Random(f"distraction {number} {attempt}"))
            agent.look(given)
            task.agent(agent, given)
        else:
            task.agent(call, given)
        if office.done:
            break
    return transcript(task.said.format(**given), calls, suite.is_distracted), given


async def distilled(
    suite: Suite, task: Task, number: int, runs: int
) -> tuple[Distillation | CallsheetError, dict[str, Any]]:
    """The plan of recorded sessions, and what the user had given in that which it is made of."""
    sessions = [session(suite, task, number + 100 * run) for run in range(runs)]
    try:
        works = [work_in_transcript(text, "session") for text, _ in sessions]
        made = await distil_all(works, {}, [f"the agent in session {run + 1}" for run in range(runs)])
    except CallsheetError as error:
        return error, sessions[0][1]
    return made, next(given for work, (_, given) in zip(works, sessions, strict=True) if work is made.work)


def filled(
    made: Distillation, fixed: str, before: dict[str, Any], now: dict[str, Any]
) -> dict[str, Any] | None:
    """The inputs of a variant: what the user says anew, or again; None if the user says nothing of one."""
    inputs: dict[str, Any] = {}
    for name, value in made.plan.inputs.items():
        told = {key: said for key, said in before.items() if f"{{{key}}}" in fixed}
        if isinstance(value, list) and value:
            items = cast("list[Any]", value)
            keys = [next((key for key, said in told.items() if said == one), "") for one in items]
            if all(keys):
                inputs[name] = [now[key] for key in keys]
                continue
        places = [key for key, said in told.items() if said == value]
        if not places and _is_said_again(value, fixed):
            inputs[name] = value
            continue
        if len({json.dumps(now[key]) for key in places}) != 1:
            return None
        inputs[name] = now[places[0]]
    return inputs


def _is_said_again(value: Any, fixed: str) -> bool:
    """Whether a value is in the words that stay the same, perhaps as a word for a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) in fixed.split() or (0 < value < len(NUMBERS) and NUMBERS[value] in fixed.split())
    return isinstance(value, str) and value != "" and value.replace("_", " ") in fixed


async def ended(suite: Suite, made: Distillation, inputs: dict[str, Any], office: Any) -> bool:
    """Run a plan in an office; whether it ended well."""
    fields = suite.world.fields

    def tool(name: str) -> Tool:
        async def handler(args: dict[str, Any], context: Any) -> Any:
            return office.call(name, {key: args[key] for key in fields[name] if key in args})

        schema: dict[str, Any] = {"type": "object", "properties": {key: {} for key in fields[name]}}
        effect = "read" if only_reads(name) else "unsafe"
        return Tool.of(name, handler, schema, effect=effect, takes_context=True)

    plan = Plan.parse(made.plan.text, name="the plan", syntax="python")
    result = await arun(plan, inputs, tools=[tool(name) for name in fields])
    return result.error is None


def _made(office: Any, tool: str, **args: Any) -> Any:
    return office.call(tool, args)


@dataclass(frozen=True)
class Outcome:
    """What became of a variant."""

    said: str
    """The request of its job."""
    kind: str
    """right, stopped, WRONG, or not distilled."""
    plan: str
    """The plan, or why there is none."""
    variant: str
    """The session, the variant, the inputs and, if it is wrong, what was done and what the task asks for."""


async def outcomes(suite: Suite, runs: int = 1) -> list[Outcome]:
    """What became of each variant."""
    found: list[Outcome] = []
    for number in range(suite.sessions):
        task = suite.tasks[number % len(suite.tasks)]
        made, given = await distilled(suite, task, number, runs)
        for variant in range(3):
            now = task.inputs(random.Random(f"variant {number} {variant}"))
            if isinstance(made, CallsheetError):
                found.append(Outcome(task.said, "not distilled", str(made), f"session {number}"))
                continue
            inputs = filled(made, task.said, given, now)
            if inputs is None:  # a user says two words of the request as one value
                told = Retelling(task.said.format(**given), task.said.format(**now))
                values = {name: told.value_for(value) for name, value in made.plan.inputs.items()}
                inputs = None if None in values.values() else values
            wanted, office = suite.world(900 + variant), suite.world(900 + variant)
            task.agent(partial(_made, wanted), now)
            has_ended = inputs is not None and await ended(suite, made, inputs, office)
            at = f"session {number}, variant {variant} with {inputs}"
            if office.done != wanted.done[: None if has_ended else len(office.done)]:
                kind, at = "WRONG", f"{at}:\n  done:   {office.done}\n  wanted: {wanted.done}"
            else:
                kind = "right" if has_ended else "stopped"
            found.append(Outcome(task.said, kind, made.plan.text, at))
    return found


OFFICE = Suite("an office", Office, KINDS, 50)


def _suite(name: str, module: ModuleType, world: type[World], is_distracted: bool = False) -> Suite:
    tasks = tuple(Task(said, agent, module.given) for said, agent in module.JOBS)
    return Suite(name, world, tasks, len(tasks), is_distracted)


OTHERS = (
    _suite("a software team", team, team.Team),
    _suite("a store", store, store.Store),
    _suite("common servers", services, services.Services),
    _suite("operations", operations, operations.Operations),
    _suite("a school", school, school.School),
    _suite("errands", errands, errands.WORLD, is_distracted=True),
    _suite("agencies", agencies, agencies.Agencies, is_distracted=True),
    _suite("housing", housing, housing.Housing, is_distracted=True),
    _suite("cars", cars, cars.Cars, is_distracted=True),
    _suite("a desk", desk, desk.Desk, is_distracted=True),
)


def _number(option: str, default: int) -> int:
    return int(sys.argv[sys.argv.index(option) + 1]) if option in sys.argv else default


def main() -> int:
    """Print the outcomes by task, and each variant that was wrong; 1 if there is one."""
    wrong = 0
    runs = _number("--runs", 1)
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    suites = [suite for suite in (OFFICE, *OTHERS) if only in suite.name]
    if not suites:
        sys.exit(f"no set is called {only}: name one of {', '.join(one.name for one in (OFFICE, *OTHERS))}")
    for asked in suites:
        each = _number("--sessions", asked.sessions // len(asked.tasks))
        suite = replace(asked, sessions=each * len(asked.tasks))
        found = asyncio.run(outcomes(suite, runs))
        for said in dict.fromkeys(one.said for one in found):
            counts = Counter(one.kind for one in found if one.said == said)
            print(f"{said:66} {', '.join(f'{count} {kind}' for kind, count in counts.items())}")
            if "--show" in sys.argv:
                print(next(one.plan for one in found if one.said == said))
        for one in found:
            if one.kind == "WRONG":
                print(f"WRONG: {one.said}, {one.variant}\n{one.plan}")
        total = Counter(one.kind for one in found)
        share = total["right"] / len(found)
        print(f"{suite.name}: {len(found)} variants of {suite.sessions} sessions: {dict(total)}, {share:.0%}")
        wrong += total["WRONG"]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
