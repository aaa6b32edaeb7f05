"""The prompt that asks for a plan as a Python program: rules, examples, the tools as a module, the goal.

Pure. In: a goal and the available tools. Out: a conversation whose beginning (rules, examples, module) does
not depend on the goal while all tools fit. Which tools are told is a matter of room, not of words: all of
them where they fit, else those that rank first for the whole goal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from callsheet.authoring.compiler.catalogue import by_fit
from callsheet.authoring.compiler.origins import described_result
from callsheet.authoring.compiler.prompt import MAX_CONTEXT, Question, asked_for
from callsheet.authoring.compiler.request import Request
from callsheet.authoring.compiler.tool_lines import estimate_tokens
from callsheet.ir import CallKind, call_kind
from callsheet.machine import Cut, Remark
from callsheet.passes.structured.shapes import FORMATS
from callsheet.ports.models.model import Strength
from callsheet.ports.models.prompts import Messages, one_line
from callsheet.ports.tools import ToolSpec
from callsheet.views.python_types import Record, Types, docstring
from callsheet.views.stubs import OMITTED, stub_of

PROGRAM_VERSION = 11
"""Incremented whenever a text of the prompt changes, so that a journal tells which prompt gave a plan."""

RULES = """\
You turn a goal into a plan: one async Python function that reaches the goal by awaiting tools. \
Answer with the program alone.
1. Write `async def main():`. What the goal says (names, paths, numbers) is written into the calls as it is.
2. Call only the tools below, as `await tool(name=value)`, with arguments by name. \
Nothing else touches the world.
3. Do what the goal asks, in its order, and nothing else. What depends on a condition stands in an `if`, \
what is done to each of several things in a `for`. A question changes nothing.
4. An id, an address or an amount that the goal does not state is never invented: call the tool that \
finds it by what is known, such as a name, and take it from the result.
5. Results are JSON: `r["field"]`, `for x in r`, `len(r)`. A result of type Any is as its tool describes it.
6. Compare, count, filter and compute in Python; imports: asyncio, datetime, json, math, re, collections.
7. `await llm("task", data)` has a model write, translate, summarize or judge text, \
`await llm_extract("what", data)` picks values out of it.
8. A call that fails raises ToolError and ends the plan. Catch it only where the goal says what to do then.
9. `a, b = await asyncio.gather(f(), g())` makes calls side by side that do not need each other.
10. End with `return` and the answer for the user."""

SHORT_RULES = """\
You are given a Python module of async functions. Write one more, `async def main():`, which does what the \
user asks by awaiting them, and returns the answer for the user. Answer with `main` alone; the functions \
exist already."""
"""For small models, which know Python and follow few rules."""

SHORT_EXAMPLES = '''\
Goal: If lamp L-3 is red, paint every wooden wall of the Miller flat white. How many are there?
async def main():
    lamp = await lamp_state(lamp_id="L-3")
    flats = await flats_of(owner="Miller")
    walls = [x for x in await walls_in(flat_id=flats[0]["id"]) if x["material"] == "wood"]
    if lamp["color"] == "red":
        for wall in walls:
            await paint(wall_id=wall["id"], color="white")
    return f"The lamp is {lamp['color']}, and there are {len(walls)} walls."

Goal: Water the rose and the fern if it is drier than 30 percent; otherwise let Ann know.
async def main():
    for plant in ["rose", "fern"]:
        if await moisture(plant=plant) < 30:
            await water(plant=plant)
        else:
            ann = await person(name="Ann")
            await note(to=ann["email"], text=f"The {plant} is not dry.")
    return "The plants are looked after."

Goal: Whose boat came in last?
async def main():
    boats = await boats_in_port(order="arrival")
    last = max(boats, key=lambda x: x["arrival"])
    return f"The last one is the boat of {last['owner']}."'''
"""For small models, which copy the words of examples too: there are no comments (one that begins with *Find*
calls the tool that is called so), and their functions do not begin with the verbs of tools."""

OTHER_EXAMPLES = '''\
async def main():
    """Lamp L-3 is too bright, so please dim it to 20 percent."""
    await set_brightness(lamp_id="L-3", percent=20)
    return "Lamp L-3 is dimmed to 20 percent."

async def main():
    """Unless the Miller flat is clean, tell Ann by mail that it is not."""
    flat = await flat_of(owner="Miller")
    if not flat["clean"]:
        ann = await person(name="Ann")
        await mail(to=ann["email"], text="The Miller flat is not clean.")
        return "Ann was told that the flat is not clean."
    return "The flat is clean."

async def main():
    """Water every rose that is drier than 30 percent."""
    plants = await plants_in_garden()
    dry = [x for x in plants if x["kind"] == "rose" and x["moisture"] < 30]
    for plant in dry:
        await water(plant_id=plant["id"])
    return f"{len(dry)} roses were watered."

async def main():
    """How much do the boats weigh that are not in the port?"""
    boats = await boats_of_club()
    away = [x for x in boats if not x["in_port"]]
    return f"They weigh {sum(x['weight'] for x in away)} kg."'''
"""For the second request to a small model: to the same one it mostly gives the same answer."""
EXAMPLES_OF_SMALL = f"{SHORT_EXAMPLES}\n{OTHER_EXAMPLES}"
"""The examples of both requests."""

_OPERATIONS = '''\
async def llm(prompt: str, data: Any = None) -> str:
    """Have a language model write, translate or summarize a text."""

async def llm_extract(prompt: str, data: Any) -> str:
    """Have a language model take something out of a text."""'''
"""What a small model is told of the operations of callsheet, as of the tools."""

EXAMPLES = '''\
Goal: If lamp L-3 is red, paint every wooden wall of the Miller flat white. How many are there?
async def main():
    # Look at lamp L-3
    lamp = await get_lamp(lamp_id="L-3")
    # Find the wooden walls of the Miller flat
    flat = await find_flat(owner="Miller")
    walls = [x for x in await list_walls(flat_id=flat["id"]) if x["material"] == "wood"]
    # If the lamp is red, paint each of them white
    if lamp["color"] == "red":
        for wall in walls:
            await paint_wall(wall_id=wall["id"], color="white")
    return f"The lamp is {lamp['color']}, and there are {len(walls)} walls."

Goal: Water the rose and the fern if it is drier than 30 percent; otherwise let Ann know.
async def main():
    # Measure the soil of the rose and of the fern
    for plant in ["rose", "fern"]:
        # Water it if it is drier than 30 percent, otherwise let Ann know
        if await measure_soil(plant=plant) < 30:
            await water_plant(plant=plant)
        else:
            await write_note(to="Ann", text=f"The {plant} is not dry.")
    return "The plants are looked after."

Goal: Whose boats are at sea?
async def main():
    # Take the owners of the boats that are at sea
    boats = await list_boats()
    owners = [x["owner"] for x in boats if x["at_sea"]]
    return f"At sea are the boats of {', '.join(owners)}."'''

_INTRODUCED = "Examples over other functions:"

QUESTION_RULE = """\
11. If no tool does what the goal asks for, or the goal can be read in two ways that change different \
things, write no program but one line: `QUESTION: ` and what you need to know."""
"""For strong models alone: small ones ask instead of doing what they can."""

ROOM: Mapping[Strength, int] = {Strength.STRONG: 20_000, Strength.SMALL: 3_000}
"""The most tokens of all stubs together, estimated."""
FEWEST = 15
"""The tools that are told even if they take more than the room, unless the context of the model is known."""


class Detail(NamedTuple):
    """How much of a tool is told: the characters of its description, and whether those of its arguments."""

    characters: int
    arguments: bool


_DETAILS = (Detail(4_000, True), Detail(400, True), Detail(160, False))
"""From all to little; the first that fits is taken."""


@dataclass(frozen=True, slots=True)
class Stubs:
    """The stubs that a model is told, and remarks on what was left out."""

    text: str
    tools: tuple[ToolSpec, ...]
    remarks: tuple[Remark, ...] = ()


_BESIDE = 2_000
"""Tokens of a context for the rules, examples, a short goal, answer, and a repair of it."""
_SHORT = 300
"""Tokens of a goal, with the data about it, that are among them."""


def room_beside(request: Request, context: int | None) -> int | None:
    """The tokens of a model's context that a long goal and the data about it leave; None if it is not known.

    >>> [room_beside(Request("Pay the rent. " * n, ()), 4_096) for n in (1, 500)]
    [4096, 2396]
    """
    told = "".join((request.goal, request.context[:MAX_CONTEXT], *request.given.values()))
    return None if context is None else context - max(0, estimate_tokens(told) - _SHORT)


def stubs_for(
    goal: str,
    tools: Iterable[ToolSpec],
    strength: Strength,
    most: int | None = None,
    context: int | None = None,
) -> Stubs:
    """The stubs of all tools, or of those that rank first for a goal where not all fit.

    `most` limits their number, `context` is that of the model in tokens, if it is known. They are in the
    order of their names, so that the text of all tools is the same for every goal. Operations of callsheet
    are none of them: of these the rules tell strong models, and `_OPERATIONS` small ones.

    >>> specs = [ToolSpec("SEND", "send", "Mail a text."), ToolSpec("READ_FILE", "read_file", "Read a file.")]
    >>> stubs_for("Read the file", specs, Strength.STRONG, most=1).text.splitlines()[0]
    'async def read_file() -> Any:'
    """
    offered = sorted((s for s in tools if call_kind(s.name) is CallKind.TOOL), key=lambda spec: spec.name)
    room = ROOM[strength] if context is None else min(ROOM[strength], max(context - _BESIDE, 0))
    if most is None or len(offered) <= most:
        for detail in _DETAILS:
            text = _text(offered, detail)
            if estimate_tokens(text) <= room:
                return Stubs(text, tuple(offered))
    ranked = by_fit(goal, offered)[:most]
    size = min(len(ranked), FEWEST if context is None else 1)
    detail = next((d for d in _DETAILS if estimate_tokens(_text(ranked[:size], d)) <= room), _DETAILS[-1])
    used = estimate_tokens(_text(ranked[:size], detail))
    for spec in ranked[size:]:
        used += estimate_tokens(_text([spec], detail)) + 1
        if used > room:
            break
        size += 1
    chosen = sorted(ranked[:size], key=lambda spec: spec.name)
    cut = Cut("the tools in the prompt", len(chosen), len(offered), "tools")
    return Stubs(_text(chosen, detail), tuple(chosen), (cut,))


def _text(tools: Iterable[ToolSpec], detail: Detail) -> str:
    """The stubs of tools as a module: the records that their types need, then the functions."""
    types = Types(shares=True)
    functions = [_stub(_described(spec), types, detail) for spec in tools]
    return "\n\n".join((*(_record(one) for one in types.records.values()), *functions))


def _described(spec: ToolSpec) -> ToolSpec:
    """The tool with what its description shows of its result, where nothing declares that."""
    return spec if spec.result else replace(spec, result=described_result(spec))


def _record(record: Record) -> str:
    is_stated = any(one.is_required for one in record.fields)
    fields = (
        one_line(
            f"{one.name}: {one.type if one.is_required or not is_stated else f'NotRequired[{one.type}]'}"
            + (f"  # {FORMATS[one.format]}" if one.format else "")
        )
        for one in record.fields
    )
    return "\n    ".join((f"class {record.name}(TypedDict):", *fields))


def _stub(spec: ToolSpec, types: Types, detail: Detail) -> str:
    stub = stub_of(spec.name, spec, types)
    about = [one_line(_short(" ".join(spec.description.split()), detail.characters))]
    for one in (*stub.positional, *stub.named, *stub.others) if detail.arguments else ():
        if said := _short(one.about, detail.characters):
            about.append(one_line(f"{one.name}: {said}"))
    head = one_line(stub.head.replace(f" = {OMITTED}", " = ..."))
    return f"{head}:\n    {docstring(chr(10).join(filter(None, about))) if any(about) else '...'}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def other_question(request: Request, asked: Question) -> Messages:
    """The second request to a small model, in another form: a function to complete, after such functions.

    It begins as the first one, so that the tools are read from the cache. With data, inputs or answers beside
    the goal it is the first one.
    """
    if request.given or request.context or request.answers:
        return asked.messages
    text = docstring(request.goal)
    return [
        asked.messages[0],
        {
            "role": "user",
            "content": f"Functions over other modules:\n\n```python\n{OTHER_EXAMPLES}\n```\n\n"
            f"Complete this one over the module above:\n\n```python\nasync def main():\n    {text}\n```",
        },
    ]


def program_question(request: Request, stubs: Stubs, strength: Strength = Strength.SMALL) -> Question:
    """The conversation that asks for a program: rules and stubs first, the goal last."""
    goal = "\n\n".join(
        (request.goal, *(f"(You asked: {q}\nAnswer: {a})" for q, a in request.answers.items()))
    )
    names = ", ".join(request.given)
    lines = "\n".join(f"{name}: {about}" for name, about in request.given.items())
    given = f"The function is `async def main({names}):`; its arguments are\n{lines}" if names else ""
    asked = asked_for(goal, request.context, given)
    if strength is Strength.STRONG:
        rules = f"{RULES}\n{QUESTION_RULE}\n\n{EXAMPLES}\n\nTools:\n{stubs.text or 'none'}"
        said = asked.text
    else:
        module = "\n\n".join(filter(None, (stubs.text, _OPERATIONS)))
        rules = f"{SHORT_RULES}\n\n```python\n{module}\n```"
        about = asked.text if given or request.context else f"Goal: {goal}"
        said = f"{_INTRODUCED}\n\n{SHORT_EXAMPLES}\n\nNow with the functions of the module.\n{about}"
    messages = [{"role": "system", "content": rules}, {"role": "user", "content": said}]
    return Question(messages, (*stubs.remarks, *asked.remarks), f"program/{PROGRAM_VERSION}")
