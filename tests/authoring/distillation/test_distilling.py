"""Plans distilled from what a scripted agent did: they repeat it, and do the same for other data, or stop."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from callsheet import Plan, arun
from callsheet.api.distillation import distil_all, tried
from callsheet.authoring.distillation.plan_text import DistilledPlan
from callsheet.authoring.distillation.recorded_calls import RecordedCall, RecordedWork, slice_of
from callsheet.authoring.distillation.retelling import Retelling
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Effect
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec

WORDS = ("apple", "river", "stone", "cloud", "maple", "ember", "harbor", "violet", "copper", "meadow")
READS = (
    "list_mails",
    "read_mail",
    "find_contact",
    "list_directory",
    "read_file",
    "list_bills",
    "list_numbers",
)


@dataclass
class World:
    """Made-up data, and the tools on it; `calls` are those that were made."""

    seed: int
    size: int
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])

    def word(self, *place: object) -> str:
        chosen = random.Random(f"{self.seed} {place}")
        return f"{chosen.choice(WORDS)}{chosen.randint(100, 999)}"

    def value(self, tool: str, args: dict[str, Any]) -> Any:
        every = range(self.size)
        match tool:
            case "list_mails":
                return {"mails": [{"id": 1000 + self.seed + n, "from": f"{self.word('from', n)}@corp.example",
                                   "subject": self.word("subject", n)} for n in every]}  # fmt: skip
            case "read_mail":
                return {"id": args["id"], "text": f"the text of {args['id']}", "unread": True}
            case "find_contact":
                return {"name": args["name"], "email": f"{args['name'].lower()}{self.seed}@corp.example"}
            case "list_directory":
                return "\n".join(["[DIR] old", *(f"[FILE] {self.word('file', n)}.txt" for n in every)])
            case "read_file":
                return f"what {args['path']} says"
            case "list_bills":
                return {
                    "bills": [
                        {"iban": self.word("iban", n), "amount": 100 + 7 * n + self.seed} for n in every
                    ]
                }
            case "list_numbers":
                return [5000 + self.seed * 10 + n for n in every]
            case "send_mail" | "write_file" | "pay" | "note":
                return "done"
            case _:
                raise ToolFailed(f"there is no {tool}")

    async def call(self, tool: str, **args: Any) -> Any:
        value = self.value(tool, args)
        self.calls.append(RecordedCall(len(self.calls), tool.upper(), args, value))
        return value


Call: TypeAlias = "Callable[..., Awaitable[Any]]"


async def answer_all(call: Call, given: dict[str, str]) -> None:
    for mail in (await call("list_mails", box=given["box"]))["mails"]:
        await call("read_mail", id=mail["id"])
        await call("send_mail", to=mail["from"], text=f"Thank you for {mail['subject']}")


async def copy_files(call: Call, given: dict[str, str]) -> None:
    listed = await call("list_directory", path=given["folder"])
    texts = [
        await call("read_file", path=f"{given['folder']}/{line.removeprefix('[FILE] ')}")
        for line in listed.splitlines()
        if line.startswith("[FILE] ")
    ]
    await call("write_file", path=given["target"], content="\n".join(texts))


async def pay_bills(call: Call, given: dict[str, str]) -> None:
    bills = (await call("list_bills", month=given["month"]))["bills"]
    for bill in bills:
        await call("pay", to=bill["iban"], amount=bill["amount"])
    await call("send_mail", to=given["boss"], text="", total=sum(bill["amount"] for bill in bills))


async def write_to(call: Call, given: dict[str, str]) -> None:
    await call("list_mails", box="spam")  # nothing comes of it
    contact = await call("find_contact", name=given["name"])
    await call("send_mail", to=contact["email"], text=given["text"])


async def read_numbers(call: Call, given: dict[str, str]) -> None:
    numbers = await call("list_numbers")
    texts = [(await call("read_mail", id=number))["text"] for number in numbers]
    await call("note", title=given["title"], text=", ".join(texts))


TASKS: dict[str, tuple[Callable[[Call, dict[str, str]], Awaitable[None]], list[dict[str, str]]]] = {
    "answer all": (answer_all, [{"box": "inbox"}, {"box": "team"}]),
    "copy files": (
        copy_files,
        [{"folder": "/data", "target": "all.txt"}, {"folder": "/tmp", "target": "b.md"}],
    ),
    "pay": (
        pay_bills,
        [{"month": "June", "boss": "boss@x.example"}, {"month": "May", "boss": "eve@y.example"}],
    ),
    "write": (write_to, [{"name": "Ann", "text": "see you"}, {"name": "Bob", "text": "good bye"}]),
    "numbers": (read_numbers, [{"title": "All of it"}, {"title": "More"}]),
}


async def distilled(calls: list[RecordedCall], said: str) -> DistilledPlan:
    return (await distil_all([RecordedWork(calls, said=said)], {}, ["the agent"])).plan


def kept(calls: list[RecordedCall]) -> list[RecordedCall]:
    return slice_of(calls, {name.upper(): Effect.READ for name in READS})


async def run_on(world: World, plan: DistilledPlan, inputs: dict[str, Any]) -> str | None:
    """Run a plan on a world; returns its error."""

    def tool(name: str) -> Tool:
        async def handler(args: dict[str, Any], context: CallContext) -> Any:
            return await world.call(name, **args)

        return Tool(
            ToolSpec(name.upper(), name, "", {"type": "object", "additionalProperties": True}), handler
        )

    names = [*READS, "send_mail", "write_file", "pay", "note"]
    result = await arun(Plan.parse(plan.text, syntax="python"), inputs, tools=[tool(name) for name in names])
    return result.error


@pytest.mark.parametrize("task", TASKS)
async def test_plan_does_the_same_for_other_data(task: str) -> None:
    work, (first, second) = TASKS[task]
    recorded = World(1, 3)
    await work(recorded.call, first)
    plan = await distilled(kept(recorded.calls), "Please: " + ", ".join(first.values()))
    by_value = {value: name for name, value in first.items()}
    for seed, size, given in ((1, 3, first), (2, 3, first), (3, 5, second), (4, 2, second)):
        inputs = {
            name: given[by_value[value]] if value in by_value else value
            for name, value in plan.inputs.items()
        }
        wanted, made = World(seed, size), World(seed, size)
        await work(wanted.call, given)
        assert await run_on(made, plan, inputs) is None, plan.text
        calls = [(call.tool, call.args) for call in kept(wanted.calls)]
        assert [(call.tool, call.args) for call in made.calls] == calls, plan.text


async def test_what_nothing_explains_is_an_input_and_no_guess() -> None:
    mails: Any = [{"id": n, "from": f"writer{n}@x.example", "text": "word " * n} for n in (1, 2, 3)]
    calls = [
        RecordedCall(0, "LIST_MAILS", {}, {"mails": mails}),
        RecordedCall(1, "SEND_MAIL", {"to": "writer2@x.example", "text": "I chose you", "copies": 3}, "done"),
    ]
    plan = await distilled(calls, "Write to one of them")
    assert plan.inputs == {"to": "writer2@x.example", "text": "I chose you", "copies": 3}
    assert {*plan.reasons.values()} == {"nothing before it explains it"}
    assert "None" not in plan.text
    assert "= " not in plan.text.splitlines()[0]  # no defaults


async def test_some_of_a_list_are_chosen_by_whoever_runs_the_plan() -> None:
    calls = [RecordedCall(0, "LIST_NUMBERS", {}, [5001, 5002, 5003, 5004])]
    calls += [RecordedCall(n, "NOTE", {"id": 5000 + n}, "done") for n in (1, 3)]
    plan = await distilled(calls, "")
    assert plan.inputs == {"ids": [5001, 5003]}
    assert json.dumps(plan.inputs["ids"]) not in plan.text


async def test_objects_in_arguments_are_built_from_what_is_known() -> None:
    files: Any = [{"name": f"note{n}.txt", "content": f"text number {n}"} for n in range(3)]
    calls = [
        RecordedCall(0, "LIST_FILES", {}, {"files": files}),
        RecordedCall(
            1,
            "CREATE",
            {"entry": {"title": "All", "texts": [one["content"] for one in files], "open": True}},
            "ok",
        ),
    ]
    plan = await distilled(calls, "")
    built = '{"title": title, "texts": [row["content"] for row in files["files"]], "open": True}'
    assert f"create_result = await create(entry={built})" in plan.text
    assert plan.inputs == {"title": "All"}


async def test_items_that_a_field_happens_to_tell_apart_are_chosen_by_nobody_known() -> None:
    rows: list[JSON] = [{"id": f"O-100{number}", "open": number % 2 == 0} for number in range(5)]
    calls = [RecordedCall(0, "LIST_ORDERS", {"customer": "dora"}, rows)]
    for number, row in enumerate(rows[::2], 1):
        assert isinstance(row, dict)
        calls.append(RecordedCall(number, "CLOSE", {"order": row["id"]}, "closed"))
    plan = await distilled(calls, "close what can be closed for dora")
    assert plan.inputs == {"customer": "dora", "orders_2": ["O-1000", "O-1002", "O-1004"]}
    assert plan.reasons["orders_2"] == "a model chose them"


ORDERS: list[JSON] = [
    {
        "id": f"O-100{n}",
        "open": n in {1, 3},
        "state": ("paid", "sent")[n % 2],
        "total": 10 * (n + 1),
        "stock": -n,
    }
    for n in range(4)
]


@pytest.mark.parametrize(
    ("said", "chosen", "code"),
    [
        ("close the open orders", (1, 3), '[each for each in orders if each["open"]]'),
        ("close the orders that are not open", (0, 2), '[each for each in orders if not each["open"]]'),
        ("close all paid orders", (0, 2), '[each for each in orders if each["state"] == paid]'),
        ("close the orders with a total over 20", (2, 3), 'if each["total"] > number]'),
        ("close the first two orders", (0, 1), "orders_2 = orders[:count]"),
        ("close the last order", (3,), 'close(order=orders[-1]["id"])'),
        ("close the order with the largest total", (3,), 'max(orders, key=lambda one: one["total"])'),
        ("close the order with the most stock", (0,), 'max(orders, key=lambda one: one["stock"])'),
        ("close most orders", (0, 1, 3), ""),
        ("close the largest order", (3,), 'max(orders, key=lambda one: one["total"])'),  # it has little stock
        ("close the open orders", (0, 1, 3), ""),  # the agent has done something else
        ("close the open orders", (0, 1, 2, 3), ""),
        ("close all orders except the paid ones", (1, 3), ""),
        ("close some orders", (1, 3), ""),
        ("close what can be closed", (1, 3), ""),
    ],
)
async def test_items_that_the_words_of_the_user_select_are_no_choice(
    said: str, chosen: tuple[int, ...], code: str
) -> None:
    calls = [RecordedCall(0, "LIST_ORDERS", {}, ORDERS)]
    for number, at in enumerate(chosen, 1):
        calls.append(RecordedCall(number, "CLOSE", {"order": f"O-100{at}"}, "closed"))
    plan = await distilled(calls, said)
    if code:
        assert code in plan.text, plan.text
        assert {*plan.reasons.values()} <= {"the user said it"}
        assert "the user's words select" in plan.readings[0]
    else:
        assert next(iter(plan.reasons.values())) in {"a model chose them", "nothing before it explains it"}
        assert "for each in" not in plan.text
        assert plan.readings == ()


async def test_condition_stays_where_the_recorded_items_all_fulfilled_it() -> None:
    open_ones: list[Any] = [row for row in ORDERS if isinstance(row, dict) and row["open"]]
    calls = [RecordedCall(0, "LIST_ORDERS", {}, open_ones)]
    calls += [RecordedCall(n, "CLOSE", {"order": row["id"]}, "ok") for n, row in enumerate(open_ones, 1)]
    assert 'if each["open"]]' in (await distilled(calls, "close the open orders")).text
    one = await distilled(calls[:2], "close the open orders")
    assert one.inputs == {"order": "O-1001"}  # there were two
    late = await distilled(calls, "close the late orders")
    assert late.inputs == {"orders_2": ["O-1001", "O-1003"]}  # nothing says what late means


async def test_single_call_for_a_selected_item_is_a_loop_only_if_it_names_the_item() -> None:
    rows: list[Any] = [
        {"order": "O-1", "open": True, "total": 4711},
        {"order": "O-2", "open": False, "total": 5},
    ]
    listed = RecordedCall(0, "LIST_ORDERS", {}, rows)
    named = await distilled(
        [listed, RecordedCall(1, "CLOSE", {"order": "O-1"}, "ok")], "close the open orders"
    )
    assert 'close(order=orders_2_item["order"])' in named.text
    for text in ("4711", "O-1"):  # perhaps the sum of all, or a list of all: more than one stop it
        logged = await distilled(
            [listed, RecordedCall(1, "LOG", {"text": text}, "ok")], "log the open orders"
        )
        assert 'len([each for each in orders if each["open"]]) == 1' in logged.stops


@pytest.mark.parametrize(
    ("said", "result", "condition"),
    [
        ("if it rains in Oslo, write to ann@x.example", {"rain": True}, 'weather["rain"]'),
        ("write to ann@x.example if it is over 20 in Oslo", {"high": 25}, 'weather["high"] > the_in'),
        ("if there are any days in Oslo, write to ann@x.example", {"days": [3]}, 'len(weather["days"]) > 0'),
        ("if it pours in Oslo, write to ann@x.example", {"rain": True}, "condition_holds"),
        ("write to ann@x.example or bob of Oslo", {"rain": True}, "condition_holds"),
        ('write to ann@x.example of Oslo: "call if it rains"', {"rain": True}, ""),
    ],
)
async def test_condition_of_the_user_is_asked_of_the_data_or_of_whoever_runs_the_plan(
    said: str, result: Any, condition: str
) -> None:
    calls = [
        RecordedCall(0, "GET_WEATHER", {"city": "Oslo"}, result),
        RecordedCall(1, "SEND", {"to": "ann@x.example"}, "sent"),
    ]
    plan = await distilled(calls, said)
    found = [line.strip() for line in plan.text.splitlines() if line.strip().startswith("if not ")]
    assert [line.removeprefix("if not ").strip("():") for line in found] == ([condition] if condition else [])
    assert ("condition_holds" in plan.inputs) == (condition == "condition_holds")


LOOK: dict[str, JSON] = {
    "room": "blue",
    "free": True,
    "seats": 4,
    "owners": ["ann", "eve"],
    "next_page": None,
}
PEOPLE: list[JSON] = [{"boss": "ann@x.example", "on": True}, {"boss": "bob@x.example", "on": True}]


OPEN: list[tuple[str, list[tuple[str, Any, Any]], list[str]]] = [
    # a look before something was changed may have been the reason to go on
    (
        "book blue for bob",
        [("CHECK_ROOM", {"room": "blue"}, LOOK), ("BOOK", {"room": "blue", "to": "bob"}, "ok")],
        ['room_2["free"]', 'len(room_2["owners"]) > 0', 'to not in room_2["owners"]'],
    ),
    # two fields had the one value that was used
    (
        "tell the owner of shop 7",
        [
            ("GET_SHOP", {"shop": 7}, {"mail": "a@x.example", "office": "a@x.example"}),
            ("SEND", {"to": "a@x.example"}, "ok"),
        ],
        ['shop_2["mail"] == shop_2["office"]'],
    ),
    # no item was unlike these, and nobody was written to twice
    (
        "greet the bosses",
        [
            ("LIST_STAFF", {}, PEOPLE),
            *(("SEND", {"to": f"{who}@x.example"}, "ok") for who in ("ann", "bob")),
        ],
        ['all(each["on"] for each in staff)', 'len({each["boss"] for each in staff}) == len(staff)'],
    ),
    # there was one page
    (
        "close all jobs",
        [
            ("LIST_JOBS", {"limit": 9}, {"jobs": [{"id": "j-1"}, {"id": "j-2"}], "has_more": False}),
            *(("CLOSE", {"id": f"j-{n}"}, "ok") for n in (1, 2)),
        ],
        ['not jobs["has_more"]', 'len(jobs["jobs"]) < 9'],
    ),
    # a list in a text had something in it
    (
        "mail the names to al@x.example",
        [
            ("LIST_CLUBS", {}, [{"name": "chess"}, {"name": "rowing"}]),
            ("MAIL", {"to": "al@x.example", "text": "chess, rowing"}, "ok"),
        ],
        ["len(clubs) > 0"],
    ),
]


@pytest.mark.parametrize(("said", "calls", "stops"), OPEN)
async def test_plan_stops_where_the_record_leaves_open_what_to_do(
    said: str, calls: list[tuple[str, dict[str, JSON], JSON]], stops: list[str]
) -> None:
    made = [RecordedCall(place, *call) for place, call in enumerate(calls)]
    plan = await distilled(made, said)
    assert plan.unexplained == frozenset()
    assert plan.text.count("await ") == len({tool for tool, _, _ in calls})
    assert [stop for stop in stops if stop not in plan.stops] == [], plan.stops


ROOMS: list[JSON] = [{"room": f"R-10{n}", "seats": n} for n in range(4)]
RATES = [{"rate": rate} for rate in (90, 70, 80, 95)]
FOUND: list[tuple[str, list[tuple[str, Any, Any]], list[str]]] = [
    # one after the other was looked at, until one was free
    (
        "book a free room for bob",
        [
            ("LIST_ROOMS", {}, ROOMS),
            *(("CHECK_ROOM", {"room": f"R-10{n}"}, {"free": n == 2}) for n in range(3)),
            ("BOOK", {"room": "R-102", "to": "bob"}, "ok"),
        ],
        ["for room in rooms:", 'if room_2["free"]:', "break", "else:", 'book(room=room["room"]'],
    ),
    # what was looked up for each room tells which is meant
    (
        "book the room with the lowest rate for bob",
        [
            ("LIST_ROOMS", {}, ROOMS),
            *(("GET_RATE", {"room": f"R-10{n}"}, rate) for n, rate in enumerate(RATES)),
            ("BOOK", {"room": "R-101", "to": "bob"}, "ok"),
        ],
        ["{**a, **b} for a, b in zip(rooms, rates)", 'min(joined, key=lambda one: one["rate"])'],
    ),
    # there was nobody else of that name
    (
        'tell Bob Berg: "lunch is ready"',
        [
            ("FIND_PEOPLE", {"name": "Bob Berg"}, [{"id": "u-4711"}]),
            ("SEND", {"to": "u-4711", "text": "lunch is ready"}, "ok"),
        ],
        ["assert len(people) == 1", 'to=people[0]["id"]'],
    ),
    # the listing has pages, and so does what is done with it
    (
        "close all jobs",
        [
            ("LIST_JOBS", {"page": 1}, {"jobs": [{"id": "j-1"}, {"id": "j-2"}], "next": 2}),
            ("LIST_JOBS", {"page": 2}, {"jobs": [{"id": "j-3"}], "next": None}),
            *(("CLOSE", {"id": f"j-{n}"}, "ok") for n in (1, 2, 3)),
        ],
        ['while jobs["next"]:', 'list_jobs(page=jobs["next"])', "for all_job in all_jobs:"],
    ),
    # figures: what the words say is done with the numbers, and what no other calculation gives
    (
        "give the fleet 4 more cars",
        [("GET_FLEET", {}, {"cars": 3}), ("SET_FLEET", {"cars": 7}, "ok")],
        ['cars=fleet["cars"] + more'],
    ),
    (
        "mail ann@x.example what 43 shares of GLOB are worth",
        [
            ("GET_PRICE", {"symbol": "GLOB"}, {"price": 29.08}),
            ("MAIL", {"to": "ann@x.example", "text": "43 shares of GLOB: 1250.44"}, "ok"),
        ],
        ["format(price[\"price\"] * shares_2, '.2f')"],
    ),
    # which visit is the last, place and day agree on, or the plan stops
    (
        "send ann@x.example to the doctor of the last visit",
        [
            (
                "LIST_VISITS",
                {},
                [{"day": "2026-01-09", "doctor": "Hilde"}, {"day": "2026-02-09", "doctor": "Goran"}],
            ),
            ("SEND", {"who": "ann@x.example", "to": "Goran"}, "ok"),
        ],
        ['assert visits[-1]["doctor"] == max(visits, key=lambda one: one["day"])["doctor"]'],
    ),
    # kinds of files, labelled lines, texts in order
    (
        "delete the log files in tmp",
        [
            (
                "LIST_FILES",
                {"folder": "tmp"},
                [{"path": "tmp/aa.log"}, {"path": "tmp/b.txt"}, {"path": "tmp/cc.log"}],
            ),
            ("DELETE", {"path": "tmp/aa.log"}, "ok"),
            ("DELETE", {"path": "tmp/cc.log"}, "ok"),
        ],
        ['if each["path"].lower().endswith("." + log.lower())]'],
    ),
    (
        "post the total of the bill",
        [("READ_BILL", {}, "Bill\nTotal: 523\nVAT: 20\n"), ("POST", {"text": "Total: 523"}, "ok")],
        ["bill)) == 1", "bill).group(1)"],
    ),
    (
        "post the names of the clubs in alphabetical order",
        [
            ("LIST_CLUBS", {}, [{"name": "rowing"}, {"name": "chess"}]),
            ("POST", {"text": "chess, rowing"}, "ok"),
        ],
        ['sorted(clubs, key=lambda one: one["name"])', '", ".join(row["name"] for row in '],
    ),
]


@pytest.mark.parametrize(("said", "calls", "parts"), FOUND)
async def test_what_the_record_and_the_words_show_together_is_found(
    said: str, calls: list[tuple[str, dict[str, JSON], JSON]], parts: list[str]
) -> None:
    made = [RecordedCall(place, *call) for place, call in enumerate(calls)]
    plan = await distilled(made, said)
    assert plan.unexplained == frozenset(), plan.text
    assert [part for part in parts if part not in plan.text] == [], plan.text


@pytest.mark.parametrize(
    ("said", "result", "args"),
    [
        # 3 + 4 is one of many ways to 7
        ("order 4 packs", {"left": 3}, {"count": 7}),
        # 3.5 is the mean, rounded or not
        ("enter the average", [{"grade": 3}, {"grade": 4}], {"grade": 3.5}),
        # free seats are asked for, and nothing in the list says which these are
        ("book the cheapest seat that is quiet", [{"seat": "s-1", "price": 9}, {"seat": "s-2", "price": 8}],
         {"seat": "s-2"}),
    ],
)  # fmt: skip
async def test_what_may_be_chance_is_asked_for_or_stops_the_plan(
    said: str, result: JSON, args: dict[str, JSON]
) -> None:
    calls = [RecordedCall(0, "LIST_SEATS", {}, result), RecordedCall(1, "ENTER", args, "ok")]
    plan = await distilled(calls, said)
    assert plan.unexplained or any("round(" in stop for stop in plan.stops), plan.text


async def test_look_that_nothing_follows_from_is_left_out() -> None:
    calls = [
        RecordedCall(0, "LIST_ORDERS", {}, ORDERS),
        RecordedCall(1, "GET_ORDER", {"id": "O-1000"}, ORDERS[0]),
        *(RecordedCall(2 + n, "CLOSE", {"order": f"O-100{at}"}, "closed") for n, at in enumerate((1, 3))),
    ]
    plan = await distilled(calls, "close the open orders")
    assert [call.tool for call in plan.calls] == ["LIST_ORDERS", "CLOSE"]
    assert plan.inputs == {}


async def test_rounds_with_loops_of_their_own_and_rounds_that_end_early_are_loops() -> None:
    shops: Any = [{"shop": f"s-{n}"} for n in range(3)]
    calls = [RecordedCall(0, "LIST_SHOPS", {}, shops)]
    for n in range(3):
        jobs: Any = [{"job": f"j-{n}{m}", "late": m == 0} for m in range(n + 1)]
        calls.append(RecordedCall(len(calls), "LIST_JOBS", {"shop": f"s-{n}"}, jobs))
        for m in range(n + 1):
            calls.append(RecordedCall(len(calls), "CLOSE", {"job": f"j-{n}{m}"}, "ok"))
    nested = (await distilled(calls, "close all jobs of each shop")).text
    assert "            close_result = await close(job=" in nested, nested
    calls = [RecordedCall(0, "LIST_SHOPS", {}, shops)]
    for n in range(3):
        calls.append(
            RecordedCall(len(calls), "GET_SHOP", {"shop": f"s-{n}"}, {"shop": f"s-{n}", "open": n != 1})
        )
        if n != 1:
            calls.append(RecordedCall(len(calls), "CLOSE", {"shop": f"s-{n}"}, "ok"))
    assert 'if shop_2["open"]:' in (await distilled(calls, "close the open shops")).text


@pytest.mark.parametrize(
    ("said", "text", "is_kept"),
    [
        ("thank for mail 7", "Thank you for your mail about lamps", True),
        ("thank for mail 7", "Great news: about lamps", False),
        ("thank Bob for mail 7", "Thank you, Eve, for about lamps", False),  # another name next time
        ("thank for mail 7", "Thank you 3 times for about lamps", False),
    ],
)
async def test_words_around_data_are_kept_if_they_are_those_of_the_user(
    said: str, text: str, is_kept: bool
) -> None:
    calls = [
        RecordedCall(0, "READ_MAIL", {"number": 7}, {"subject": "about lamps"}),
        RecordedCall(1, "SEND_MAIL", {"text": text}, "sent"),
    ]
    plan = await distilled(calls, said)
    assert ("text" not in plan.inputs) == is_kept
    assert bool(plan.readings) == is_kept


async def test_call_for_the_result_of_the_one_before_is_no_round_of_a_loop() -> None:
    calls = [
        RecordedCall(0, "FIND_PERSON", {"name": "anton"}, {"name": "anton", "manager": "berta"}),
        RecordedCall(1, "FIND_PERSON", {"name": "berta"}, {"name": "berta", "manager": "carla"}),
    ]
    plan = await distilled(calls, "who is the manager of anton?")
    assert 'find_person(name=person["manager"])' in plan.text
    assert plan.inputs == {"name": "anton"}


def _invoice(vendor: str, sheet: str, number: str, total: str, ids: tuple[str, str]) -> RecordedWork:
    said = f"file the newest invoice of {vendor} in {sheet}: number, total"
    mails: JSON = [{"id": ids[0], "day": "2026-02-03"}, {"id": ids[1], "day": "2026-05-06"}]
    body = f"Invoice {number} of May.\nTotal: {total} EUR\nDue soon."
    return RecordedWork(
        [
            RecordedCall(0, "SEARCH_MAILS", {"query": f"from:{vendor}"}, mails),
            RecordedCall(1, "READ_MAIL", {"id": ids[1]}, {"id": ids[1], "body": body}),
            RecordedCall(2, "ADD_ROW", {"sheet": sheet, "values": [number, total]}, "done"),
        ],
        said=said,
    )


async def test_two_runs_decide_what_one_leaves_open() -> None:
    one = _invoice("acme", "costs-1", "INV-2041", "17.50", ("m417", "m592"))
    two = _invoice("globex", "costs-7", "INV-9", "1300.00", ("m771", "m803"))
    made = await distil_all([one, two], {}, ["monday", "tuesday"])
    assert made.plan.unexplained == frozenset()
    assert [*made.plan.inputs.values()][:2] == ["acme", "costs-1"]
    assert 'max(mails, key=lambda one: one["day"])' in made.plan.text
    assert made.plan.text.count("import re\n") == 1


async def test_runs_of_other_jobs_are_no_evidence() -> None:
    one = _invoice("acme", "costs-1", "INV-2041", "17.50", ("m417", "m592"))
    calls = [RecordedCall(0, "DELETE_SHEET", {"sheet": "costs-7"}, "done")]
    other = RecordedWork(calls, said="delete costs-7")
    with pytest.raises(CallsheetError, match="no reading of one run") as failure:
        await distil_all([one, other], {}, ["monday", "tuesday"])
    assert "distil monday alone: its plan leaves nothing unexplained" in str(
        failure.value.diagnostics[0].help
    )


async def test_what_python_cannot_name_is_given_otherwise() -> None:
    calls = [
        RecordedCall(0, "GET_MAIL", {"mail-id": 3}, {"text": "hi {x}"}),
        RecordedCall(1, "MOVE_MAIL", {"from": "inbox", "to": "done", "text": "hi {x}"}, "ok"),
    ]
    work = RecordedWork(calls, said="move mail 3 from inbox to done, add \u00b2")
    made = await distil_all([work], {}, ['the agent in """\\u.jsonl'])
    assert '**{"from": the_from}' in made.plan.text
    assert '**{"mail-id": number}' in made.plan.text or '**{"mail-id": mail_id}' in made.plan.text


async def test_run_that_is_too_long_to_look_through_is_named() -> None:
    calls = [RecordedCall(n, "SEND", {"n": n}, "ok") for n in range(2_001)]
    with pytest.raises(CallsheetError, match="monday has 2,001 calls, of which 2,000 at most"):
        await distil_all([RecordedWork(calls, said="send all")], {}, ["monday"])


async def test_list_that_is_too_long_to_look_in_is_named() -> None:
    one, two = (
        RecordedWork(
            [
                RecordedCall(0, "LIST", {}, {"rows": [{"id": f"t{n}", "open": n == at} for n in range(301)]}),
                RecordedCall(1, "CLOSE", {"id": f"t{at}"}, "done"),
            ],
            said="close the open ticket",
        )
        for at in (3, 7)
    )
    with pytest.raises(CallsheetError, match="CLOSE id is not explained") as failure:
        await distil_all([one, two], {}, ["monday", "tuesday"])
    help_ = str(failure.value.diagnostics[0].help)
    assert help_.startswith(".rows of the result of LIST in monday is a list of 301 items")


def _tickets(queue: str, channel: str, tickets: list[dict[str, JSON]]) -> RecordedWork:
    """A run that looks each ticket up, closes those without an answer, and tells how many."""
    calls: list[tuple[str, dict[str, JSON], JSON]] = [("LIST_TICKETS", {"queue": queue}, [*tickets])]
    closed = [one for one in tickets if not one["reply"]]
    for one in tickets:
        answered = {"key": one["key"], "reply": one["reply"], "votes": one["votes"]}
        calls.append(("GET_TICKET", {"key": one["key"]}, answered))
        if one in closed:
            calls.append(("CLOSE_TICKET", {"key": one["key"]}, "done"))
    calls.append(("POST", {"channel": channel, "text": f"closed {len(closed)} tickets of {queue}"}, "done"))
    said = f"close the tickets of {queue} that nobody has answered and tell {channel} how many"
    return RecordedWork([RecordedCall(n, *call) for n, call in enumerate(calls)], said=said)


@pytest.mark.parametrize(("votes", "stops"), [(9, False), (1, True)])
async def test_plan_of_two_runs_stops_where_its_readings_differ(votes: int, stops: bool) -> None:
    """In both runs nobody had answered just the tickets with many votes, and the words name neither field."""

    def ticket(key: str, is_answered: bool, count: int) -> dict[str, JSON]:
        return {"key": key, "reply": is_answered, "votes": count}

    one = _tickets("help", "#a-1", [ticket("H-1", True, 0), ticket("H-2", False, 7), ticket("H-3", False, 8)])
    two = _tickets("desk", "#b-2", [ticket("D-4", False, 6), ticket("D-5", True, 0)])
    made = await distil_all([one, two], {}, ["monday", "tuesday"])
    other = _tickets("shop", "#c-3", [ticket("S-6", True, votes - 9), ticket("S-7", False, votes - 1)])
    names = {"help": "shop", "#a-1": "#c-3", "desk": "shop", "#b-2": "#c-3"}
    inputs = {name: names.get(str(value), value) for name, value in made.plan.inputs.items()}
    trial = await tried(made.plan, inputs, other.calls, {})
    assert (not trial.is_same) == stops, trial.error


def _status(host: str, state: str, uptime: float) -> RecordedWork:
    text = f"{host} is {state} (uptime {uptime} %)"
    calls = [
        RecordedCall(0, "GET_STATUS", {"service": host}, {"state": state, "uptime": uptime}),
        RecordedCall(1, "POST", {"text": text}, "done"),
    ]
    return RecordedWork(calls, said=f"post the status of {host}")


def _notes(company: str, *phones: str) -> RecordedWork:
    contacts: list[dict[str, JSON]] = [
        {"id": f"{company}-{number}", "phone": phone} for number, phone in enumerate(phones)
    ]
    asked = [one["id"] for one in contacts if not one["phone"]]
    calls = [RecordedCall(0, "FIND_CONTACTS", {"company": company}, [*contacts])]
    calls += [RecordedCall(n, "ADD_NOTE", {"contact": one}, "done") for n, one in enumerate(asked, 1)]
    return RecordedWork(calls, said=f"add a note to every contact at {company} without a phone")


def _archive(folder: str, *names: str) -> RecordedWork:
    """A run that moves the csv files, which are those without a slash in the listing."""
    listing = "\n".join(f"[DIR] {one[:-1]}" if one.endswith("/") else f"[FILE] {one}" for one in names)
    calls = [RecordedCall(0, "LIST_FOLDER", {"folder": folder}, listing)]
    calls += [
        RecordedCall(n, "MOVE_FILE", {"source": f"{folder}/{one}", "to": f"{folder}/old/{one}"}, "done")
        for n, one in enumerate((one for one in names if one.endswith(".csv")), 1)
    ]
    return RecordedWork(calls, said=f"archive the csv files in {folder}")


@pytest.mark.parametrize(
    ("one", "two", "third", "given"),
    [
        (_status("db-a", "up", 98.7), _status("db-b", "up", 91.2), _status("db-c", "down", 95.4), "db-c"),
        (_notes("Acme", "", ""), _notes("Globex", "", "", ""), _notes("Initech", "", "+49 1"), "Initech"),
        (
            _archive("ann", "mixer-41.csv/", "blender-96.csv/", "heater-58.csv"),
            _archive("bob", "blender-94.csv/", "kettle-57.log/", "grill-86.csv", "heater-96.log/"),
            _archive("eve", "scale-3.log", "toaster-4.csv"),
            "eve",
        ),
    ],
)
async def test_plan_of_two_runs_stops_where_what_never_differed_differs(
    one: RecordedWork, two: RecordedWork, third: RecordedWork, given: str
) -> None:
    made = await distil_all([one, two], {}, ["monday", "tuesday"])
    trial = await tried(made.plan, dict.fromkeys(made.plan.inputs, given), third.calls, {})
    assert "the recorded run does not show what to do" in str(trial.error)


def _meeting(minutes: int, day: str, start: str, end: str) -> RecordedWork:
    args: dict[str, JSON] = {"start": f"{day}T{start}", "end": f"{day}T{end}"}
    said = f"put a meeting of {minutes} minutes on {day} at {start}"
    return RecordedWork([RecordedCall(0, "CREATE_EVENT", args, "done")], said=said)


async def test_number_of_the_user_is_meant_although_a_time_has_the_same_digits() -> None:
    one = _meeting(30, "2026-10-27", "10:30", "11:00")
    two = _meeting(60, "2026-08-21", "09:00", "10:00")
    made = await distil_all([one, two], {}, ["monday", "tuesday"])
    assert "timedelta(minutes=" in made.plan.text


def _loans(reader: str, day: str) -> RecordedWork:
    rows: list[JSON] = [
        {"loan": f"{reader}-1", "due": "2026-01-02"},
        {"loan": f"{reader}-2", "due": "2026-01-03"},
    ]
    calls = [RecordedCall(0, "LIST_LOANS", {"reader": reader}, rows)]
    calls += [RecordedCall(n, "RENEW", {"loan": f"{reader}-{n}"}, "ok") for n in (1, 2)]
    return RecordedWork(calls, said=f"renew the loans of {reader} that have no reservation on {day}")


def _hotels(town: str, *rates: int) -> RecordedWork:
    names = [f"{town}-{n}" for n in range(len(rates))]
    calls = [RecordedCall(0, "LIST_HOTELS", {"town": town}, [{"hotel": name} for name in names])]
    calls += [
        RecordedCall(n, "GET_RATE", {"hotel": name}, {"rate": rate})
        for n, (name, rate) in enumerate(zip(names, rates, strict=True), 1)
    ]
    calls.append(RecordedCall(len(calls), "BOOK", {"hotel": names[-1]}, "ok"))
    return RecordedWork(calls, said=f"book the cheapest hotel in {town}")


async def test_words_that_nothing_in_the_plan_follows_leave_no_guess() -> None:
    made = await distil_all([_loans("ann", "2026-11-26")], {}, ["monday"])
    assert made.plan.unexplained  # what is the day for?


async def test_item_is_chosen_by_what_was_looked_up_for_each() -> None:
    """The cheapest was the last of both lists, which is not why it was taken."""
    runs = [_hotels("Graz", 90, 70), _hotels("Porto", 80, 85, 60)]
    made = await distil_all(runs, {}, ["monday", "tuesday"])
    assert 'min(joined, key=lambda one: one["rate"]["rate"])' in made.plan.text


def _repairs(house: str, day: str, *finished: str | None) -> RecordedWork:
    rows: list[JSON] = [{"id": f"{house}-{n}", "finished_on": one} for n, one in enumerate(finished)]
    calls = [RecordedCall(0, "LIST_REPAIRS", {"house": house}, rows)]
    due = [f"{house}-{n}" for n, one in enumerate(finished) if one is not None and one < day]
    calls += [RecordedCall(n, "CLOSE_REPAIR", {"id": one}, "ok") for n, one in enumerate(due, 1)]
    return RecordedWork(calls, said=f"close the repairs in {house} that were finished before {day}")


@pytest.mark.parametrize("runs", [1, 2])
async def test_days_that_some_items_do_not_have_are_compared_where_they_are_there(runs: int) -> None:
    one = _repairs("Elm", "2026-11-20", "2026-11-10", None, "2026-11-25", "2026-11-12")
    two = _repairs("Oak", "2026-12-05", None, "2026-12-04", "2026-12-09")
    made = await distil_all([one, two][:runs], {}, ["monday", "tuesday"][:runs])
    assert 'each["finished_on"] and each["finished_on"]' in made.plan.text
    other = _repairs("Ash", "2026-10-07", "2026-10-06", None, None)
    names = {"Elm": "Ash", "2026-11-20": "2026-10-07"}
    inputs = {name: names.get(str(value), value) for name, value in made.plan.inputs.items()}
    assert (await tried(made.plan, inputs, other.calls, {})).is_same


def _flats(town: str, rent: int, *flats: tuple[int, bool]) -> RecordedWork:
    rows: list[JSON] = [
        {"id": f"{town}-{n}", "rent": each, "balcony": has} for n, (each, has) in enumerate(flats)
    ]
    fit = [f"{town}-{n}" for n, (each, has) in enumerate(flats) if has and each <= rent]
    calls = [RecordedCall(0, "LIST_FLATS", {"town": town}, rows)]
    calls += [RecordedCall(n, "OFFER_FLAT", {"id": one}, "ok") for n, one in enumerate(fit, 1)]
    return RecordedWork(calls, said=f"offer the flats in {town} with a balcony for at most {rent} EUR")


async def test_bound_that_the_words_name_holds_although_the_runs_did_not_need_it() -> None:
    one = _flats("Graz", 900, (800, True), (950, False), (500, True), (450, False))
    two = _flats("Porto", 1200, (1400, False), (700, True), (650, False), (1100, True))
    made = await distil_all([one, two], {}, ["monday", "tuesday"])
    other = _flats("Turku", 600, (590, True), (610, True), (300, False), (600, True))
    names: dict[JSON, JSON] = {"Graz": "Turku", 900: 600}
    inputs = {name: names.get(value, value) for name, value in made.plan.inputs.items()}  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert (await tried(made.plan, inputs, other.calls, {})).is_same, made.plan.text


def _water(flat: str, before: int, after: int, price: float) -> RecordedWork:
    calls = [
        RecordedCall(n, "READ_METER", {"flat": flat, "day": f"2026-0{n + 1}-01"}, {"litres": litres})
        for n, litres in enumerate((before, after))
    ]
    amount = round((after - before) * price, 2)
    calls.append(RecordedCall(2, "CREATE_BILL", {"flat": flat, "amount": amount}, "ok"))
    return RecordedWork(
        calls, said=f"bill the water used in {flat} from 2026-01-01 to 2026-02-01 at {price} EUR a litre"
    )


@pytest.mark.parametrize("runs", [1, 2])
async def test_what_two_measurements_differ_by_is_calculated_with(runs: int) -> None:
    given = [_water("E-101", 1214, 1497, 3.27), _water("M-204", 877, 1650, 1.94)][:runs]
    made = await distil_all(given, {}, ["monday", "tuesday"][:runs])
    assert re.search(r'round\(\(meter_2\["litres"\] - meter\["litres"\]\) \* \w+, 2\)', made.plan.text)
    other = _water("B-7", 400, 1305, 2.29)
    inputs = {
        name: "B-7" if value == "E-101" else 2.29 if isinstance(value, float) else value
        for name, value in made.plan.inputs.items()
    }
    assert (await tried(made.plan, inputs, other.calls, {})).is_same


def _visit(trade: str, *rates: tuple[int, bool], order: str = "cheapest certified painter") -> RecordedWork:
    rows: list[JSON] = [
        {"painter": f"{trade}-{n}", "rate": rate, "certified": is_certified}
        for n, (rate, is_certified) in enumerate(rates)
    ]
    calls = [RecordedCall(0, "LIST_PAINTERS", {"trade": trade}, rows)]
    able = [(rate, n) for n, (rate, is_certified) in enumerate(rates) if is_certified]
    calls.append(RecordedCall(1, "SEND_PAINTER", {"painter": f"{trade}-{min(able)[1]}"}, "ok"))
    return RecordedWork(calls, said=f"send the {order} for {trade}")


@pytest.mark.parametrize(
    ("order", "stops"), [("cheapest certified painter", False), ("certified painter", True)]
)
async def test_order_that_the_words_name_holds_where_the_runs_had_one_item_each(
    order: str, stops: bool
) -> None:
    runs = [
        _visit("doors", (40, False), (50, True), (60, False), order=order),
        _visit("walls", (70, True), (30, False), order=order),
    ]
    made = await distil_all(runs, {}, ["monday", "tuesday"])
    other = _visit("roofs", (80, True), (20, True), (10, False))
    inputs = {name: "roofs" if value == "doors" else value for name, value in made.plan.inputs.items()}
    assert (await tried(made.plan, inputs, other.calls, {})).is_same != stops, made.plan.text


def _issues(repo: str, label: str, *labels: str) -> RecordedWork:
    rows: list[JSON] = [{"number": 70 + n, "label": one} for n, one in enumerate(labels)]
    calls = [RecordedCall(0, "LIST_ISSUES", {"repo": repo}, rows)]
    for number in [70 + n for n, one in enumerate(labels) if one == label]:
        calls.append(RecordedCall(len(calls), "COMMENT_ISSUE", {"repo": repo, "number": number}, "ok"))
        calls.append(RecordedCall(len(calls), "CLOSE_ISSUE", {"repo": repo, "number": number}, "ok"))
    return RecordedWork(calls, said=f"comment the issues of {repo} labelled {label} and close these issues")


async def test_calls_that_each_run_made_once_for_an_item_are_one_loop() -> None:
    works = [_issues("a/one", "bug", "bug", "idea"), _issues("b/two", "slow", "idea", "slow", "bug")]
    made = await distil_all(works, {}, ["monday", "tuesday"])
    assert made.plan.text.count("    for ") == 1, made.plan.text


def _work(said: str, *calls: Any) -> RecordedWork:
    return RecordedWork([RecordedCall(number, *call) for number, call in enumerate(calls)], said=said)


def _mails(box: str, *pages: list[str]) -> RecordedWork:
    """A run that lists mails by a token, which the first call and the last answer do not have."""
    calls: list[Any] = []
    for number, ids in enumerate(pages):
        args = {"box": box, **({"token": f"t{number}"} if number else {})}
        is_last = number == len(pages) - 1
        answer = {"mails": [{"id": one} for one in ids], **({} if is_last else {"next": f"t{number + 1}"})}
        calls.append(("LIST_MAILS", args, answer))
    calls += [("ARCHIVE", {"id": one}, "ok") for ids in pages for one in ids]
    return _work(f"archive all mails in {box}", *calls)


async def test_pages_go_on_as_long_as_an_answer_has_a_token() -> None:
    runs = [_mails("inbox", ["m-11", "m-12"], ["m-13"]), _mails("sent", ["m-27", "m-28"])]
    text = (await distil_all(runs, {}, ["monday", "tuesday"])).plan.text
    assert '.get("next"):' in text
    assert "token=" in text


def _jobs(queue: str, *ids: str) -> RecordedWork:
    stops = [("STOP_JOB", {"id": one}, "ok") for one in ids]
    listed = ("LIST_JOBS", {"queue": queue, "page": 1}, [{"id": one} for one in ids])
    return _work(f"stop all jobs of {queue}", listed, *stops)


async def test_one_page_of_which_nothing_says_the_end_is_not_taken_to_be_all() -> None:
    runs = [_jobs("red", "a-11", "a-12"), _jobs("blue", "b-11", "b-12", "b-13")]
    text = (await distil_all(runs, {}, ["monday", "tuesday"])).plan.text
    assert re.search(r"assert len\(jobs\w*\) <= 3", text), text


def _cards(board: str, *ids: str, **others: JSON) -> RecordedWork:
    """A run that archives the cards of a board, of which the answer tells more in some fields."""
    cards: list[JSON] = [{"card": one} for one in ids]
    listed = ("LIST_CARDS", {"board": board}, {"cards": cards, **others})
    return _work(f"archive all cards of {board}", listed, *(("ARCHIVE", {"card": one}, "ok") for one in ids))


@pytest.mark.parametrize(
    ("whole", "begun"),
    [({}, {"cursor": "c3"}), ({"sizeEstimate": 2}, {"sizeEstimate": 7}),
     ({"hits": 2}, {"hits": 7, "cursor": "c3"})],
)  # fmt: skip
async def test_answer_with_more_pages_than_were_recorded_stops_the_plan(
    whole: dict[str, JSON], begun: dict[str, JSON]
) -> None:
    runs = [_cards("red", "a-11", "a-12", **whole), _cards("blue", "b-11", "b-12", **whole)]
    plan = (await distil_all(runs, {}, ["monday", "tuesday"])).plan
    for others, is_right in ((whole, True), (begun, False)):
        work = _cards("green", "c-11", "c-12", **others)
        assert (await tried(plan, dict.fromkeys(plan.inputs, "green"), work.calls, {})).is_same == is_right


async def test_number_that_the_user_says_of_two_things_is_not_one_input() -> None:
    rows: list[JSON] = [{"part": f"p-{n}", "stock": n} for n in (3, 9, 4, 12)]
    orders = [("ORDER", {"part": part, "count": 5}, "ok") for part in ("p-3", "p-4")]
    work = _work("order 5 of each part with a stock under 5", ("LIST_PARTS", {}, rows), *orders)
    with pytest.raises(CallsheetError, match="the number 5, said more than once, is not explained"):
        await distil_all([work], {}, ["monday"])


def _door(house: str, door: str, *, is_swapped: bool = False, again: int = 1) -> RecordedWork:
    looks = [
        ("GET_HOUSE", {"house": house}, {"gate": f"g-{house}"}),
        *[("GET_DOOR", {"door": door}, {"lock": f"l-{door}"})] * again,
    ]
    change = ("SET_LOCK", {"gate": f"g-{house}", "lock": f"l-{door}"}, "ok")
    return _work(f"lock door {door} of {house}", *(looks[::-1] if is_swapped else looks), change)


async def test_order_and_repetitions_of_looks_are_chance() -> None:
    runs = [_door("villa", "d-17", again=2), _door("cabin", "d-42", is_swapped=True)]
    text = (await distil_all(runs, {}, ["monday", "tuesday"])).plan.text
    assert text.count("await get_door") == 1
    assert re.search(r'set_lock\(gate=house\w*\["gate"\], lock=door\w*\["lock"\]\)', text), text


def _train(town: str, *trains: tuple[int, str]) -> RecordedWork:
    rows = [
        {"train": f"{town}-{n}", "changes": changes, "leaves": f"2026-05-01T{hour}:00"}
        for n, (changes, hour) in enumerate(trains)
    ]
    first = min(range(len(rows)), key=lambda n: trains[n][1])
    booked = ("BOOK", {"train": f"{town}-{first}"}, "ok")
    return _work(f"book the earliest direct train to {town}", ("FIND_TRAINS", {"town": town}, rows), booked)


async def test_word_that_the_plan_has_not_understood_stops_it_for_another_item() -> None:
    runs = [_train("Graz", (1, "12"), (0, "08")), _train("Porto", (0, "07"), (1, "09"))]
    made = await distil_all(runs, {}, ["monday", "tuesday"])
    assert '["changes"] == 0' in made.plan.text  # the earliest was a direct one by chance


async def test_days_are_compared_as_far_from_today_as_the_user_says() -> None:
    days = ("2026-01-02", "2026-05-01", "2025-12-03")
    work = _work(
        "revoke the keys that are older than 90 days",
        ("GET_TIME", {}, {"date": "2026-05-18"}),
        ("LIST_KEYS", {}, [{"key": f"k-10{n}", "made": day} for n, day in enumerate(days)]),
        ("REVOKE_KEY", {"key": "k-100"}, "ok"),
        ("REVOKE_KEY", {"key": "k-102"}, "ok"),
    )
    plan = (await distil_all([work], {}, ["monday"])).plan
    assert plan.unexplained == frozenset()
    assert "timedelta(days=days" in plan.text


def _bills(folder: str, *days: str) -> RecordedWork:
    """A run that pays the bill with the earliest day, which is in a line of its text."""
    rows = [{"bill": f"{folder}-{n}", "text": f"From: Ann\nDue: {day}\n"} for n, day in enumerate(days)]
    paid = ("PAY", {"bill": f"{folder}-{days.index(min(days))}"}, "ok")
    return _work(f"pay the oldest bill in {folder}", ("LIST_BILLS", {"folder": folder}, rows), paid)


@pytest.mark.parametrize("count", [1, 2])
async def test_item_is_chosen_by_a_labelled_line_of_its_text(count: int) -> None:
    runs = [_bills("home", "2026-03-04", "2026-01-09"), _bills("work", "2026-06-04", "2026-05-02")][:count]
    plan = (await distil_all(runs, {}, ["monday", "tuesday"][:count])).plan
    other = _bills("club", "2026-04-04", "2026-03-09", "2026-03-08")
    assert (await tried(plan, dict.fromkeys(plan.inputs, "club"), other.calls, {})).is_same


Rows = list[dict[str, JSON]]


def _of_each(said: str, looks: Sequence[Any], act: tuple[str, str, str], rows: Rows) -> RecordedWork:
    """Work that makes one call for each of the rows that the last look gave."""
    tool, argument, field = act
    return _work(said, *looks, *((tool, {argument: row[field]}, "ok") for row in rows))


def _drafts(section: str, *days: str) -> RecordedWork:
    rows: Rows = [{"draft": f"{section}-{n}", "day": day} for n, day in enumerate(days)]
    looks: Sequence[Any] = (
        ("GET_TIME", {}, {"now": "2026-05-18T08:00"}),
        ("LIST_DRAFTS", {"section": section}, rows),
    )
    return _of_each(
        f"publish the drafts of {section} due by today", looks, ("PUBLISH", "draft", "draft"), rows
    )


def _bookings(hall: str, *guests: int) -> RecordedWork:
    rows: Rows = [{"booking": f"{hall}-{n}", "guests": count} for n, count in enumerate(guests)]
    looks = (("LIST_BOOKINGS", {"hall": hall}, rows),)
    return _of_each(f"cancel what {hall} has with fewer than ten guests", looks,
                    ("CANCEL", "booking", "booking"), rows)  # fmt: skip


def _late(shop: str, *late: int) -> RecordedWork:
    rows: Rows = [{"order": f"{shop}-{n}", "days_late": days} for n, days in enumerate(late)]
    look = ("LIST_ORDERS", {"shop": shop}, {"orders": rows})
    return _work(
        f"note how many orders of {shop} are late", look, ("NOTE", {"text": f"{len(rows)} late"}, "ok")
    )


def _queue(queue: str, *hours: str) -> RecordedWork:
    rows: Rows = [{"ticket": f"{queue}-{n}", "opened": hour} for n, hour in enumerate(hours)]
    looks = (("LIST_TICKETS", {"queue": queue}, rows),)
    return _of_each(
        f"escalate what came into {queue} before noon", looks, ("ESCALATE", "ticket", "ticket"), rows
    )


def _guests(hotel: str, *phones: str | None) -> RecordedWork:
    rows: Rows = [{"guest": f"{hotel}-{n}", "phone": phone} for n, phone in enumerate(phones)]
    looks = (("LIST_GUESTS", {"hotel": hotel}, rows),)
    return _of_each(f"call the guests of {hotel} who left a number", looks, ("CALL", "phone", "phone"), rows)


def _mine(folder: str, *owners: str) -> RecordedWork:
    rows: Rows = [{"note": f"{folder}-{n}", "owner": owner} for n, owner in enumerate(owners)]
    looks: Sequence[Any] = (("GET_USER", {}, {"login": "ann"}), ("LIST_NOTES", {"folder": folder}, rows))
    return _of_each(f"archive my notes in {folder}", looks, ("ARCHIVE", "note", "note"), rows)


@pytest.mark.parametrize(
    ("recorded", "like_them", "unlike_them"),
    [
        ([_drafts("art", "2026-05-02", "2026-05-09"), _drafts("city", "2026-04-30", "2026-05-11")],
         _drafts("food", "2025-12-01", "2026-05-17"), _drafts("food", "2026-05-01", "2026-05-30")),
        ([_bookings("red", 3, 9), _bookings("blue", 2, 7)], _bookings("old", 4, 5), _bookings("old", 4, 30)),
        ([_late("abc", 1, 4), _late("xyz", 2, 9, 3)], _late("new", 5, 6), _late("new", 0, 6)),
        ([_queue("desk", "08:15", "11:30"), _queue("shop", "07:05", "09:00", "10:10")],
         _queue("yard", "09:30", "10:00"), _queue("yard", "09:30", "15:00")),
        ([_guests("Sun", "11", "12"), _guests("Sea", "13", "14", "15")],
         _guests("Inn", "21", "22"), _guests("Inn", "21", None)),
        ([_mine("home", "ann", "ann"), _mine("work", "ann", "ann", "ann")],
         _mine("trips", "ann", "ann"), _mine("trips", "bob", "ann")),
    ],
)  # fmt: skip
async def test_item_that_the_words_may_leave_out_stops_a_plan_that_never_had_to(
    recorded: list[RecordedWork], like_them: RecordedWork, unlike_them: RecordedWork
) -> None:
    """All that was recorded was meant, so no run shows what the words leave out."""
    plan = (await distil_all(recorded, {}, ["monday", "tuesday"])).plan
    places = [_place(work) for work in recorded]
    for work, is_right in ((like_them, True), (unlike_them, False)):
        given = {name: _place(work) if value in places else value for name, value in plan.inputs.items()}
        trial = await tried(plan, given, work.calls, {})
        assert trial.is_same == is_right
        assert is_right or "the recorded run does not show" in trial.error


async def test_words_that_nothing_recorded_shows_are_told() -> None:
    runs = [
        _work(
            f"close the tickets of {queue} that nobody has answered",
            ("LIST_TICKETS", {"queue": queue}, [{"key": key} for key in keys]),
            *(("CLOSE_TICKET", {"key": key}, "ok") for key in keys),
        )
        for queue, keys in (("help", ("H-1", "H-2")), ("desk", ("D-4", "D-5", "D-6")))
    ]
    plan = (await distil_all(runs, {}, ["monday", "tuesday"])).plan
    told = "no test in the plan follows the words “nobody answered”, which may leave items out"
    assert plan.readings == (told,)


def _announced(house: str, *tenants: str | None) -> RecordedWork:
    flats: Rows = [{"floor": n, "tenant": one} for n, one in enumerate(tenants)]
    return _work(
        f'tell all tenants in {house}: "no water", and put up a notice',
        ("POST_NOTICE", {"house": house, "text": "no water"}, "ok"),
        ("LIST_FLATS", {"house": house}, {"flats": flats}),
        *(("SEND_LETTER", {"to": one, "text": "no water"}, "ok") for one in tenants if one),
    )


def _claims(car: str, *sums: int) -> RecordedWork:
    parts = [(f"{car}-{n}", one) for n, one in enumerate(sums)]
    return _work(
        f"claim the damages of {car} of at least 500, urgency high from 900 on and low below",
        ("LIST_DAMAGES", {"car": car}, [{"part": part, "sum": one} for part, one in parts]),
        *(
            ("CLAIM", {"part": part, "urgency": "high" if one >= 900 else "low"}, "ok")
            for part, one in parts
            if one >= 500
        ),
    )


def _tracks(album: str, playlist: str, *albums: tuple[str, str]) -> RecordedWork:
    rows: Rows = [
        {"album": f"{album}-{n}", "title": title, "label": label} for n, (title, label) in enumerate(albums)
    ]
    number = next(one["album"] for one in rows if one["title"] == album)
    return _work(
        f"add {album} ballads to {playlist}",
        ("SEARCH_ALBUMS", {"name": f"{album} ballads"}, {"albums": rows}),
        ("ADD", {"album": number, "playlist": playlist}, "ok"),
    )


def _replaced(old: str, new: str, path: str, text: str) -> RecordedWork:
    return _work(
        f"replace {old} by {new} in {path}",
        ("READ_TEXT", {"path": path}, text),
        ("WRITE_TEXT", {"path": path, "text": text.replace(old, new)}, "ok"),
    )


def _pupils(course: str, *names: str) -> RecordedWork:
    return _work(
        f"list the pupils of {course} by name",
        ("LIST_PUPILS", {"course": course}, {"pupils": [{"name": one} for one in names]}),
        ("POST", {"text": ", ".join(sorted(names))}, "ok"),
    )


def _level(path: str, name: str, port: int, level: str) -> RecordedWork:
    text = "name: {}\nregion: eu-west-with-a-long-name\nlevel: {}\nport: {}\n"
    return _work(
        f"set the level in {path} to {level}",
        ("READ_FILE", {"path": path}, text.format(name, "debug", port)),
        ("WRITE_FILE", {"path": path, "content": text.format(name, level, port)}, "ok"),
    )


def _failing(repo: str, path: str, *tests: str) -> RecordedWork:
    return _work(
        f"open an issue in {repo} for each failing test in {path}",
        ("READ_REPORT", {"path": path}, "\n".join(f"FAIL {one}" for one in tests)),
        *(("OPEN_ISSUE", {"repo": repo, "title": f"Fix {one}"}, "ok") for one in tests),
    )


def _room(town: str, *hotels: tuple[int, int]) -> RecordedWork:
    rows: Rows = [{"hotel": f"{town}-{n}", "stars": stars} for n, (stars, _) in enumerate(hotels)]
    looks = [("GET_RATE", {"hotel": f"{town}-{n}"}, {"single": rate}) for n, (_, rate) in enumerate(hotels)]
    best = min(range(len(hotels)), key=lambda n: hotels[n][1])
    return _work(
        f"reserve the cheapest room in {town}",
        ("LIST_HOTELS", {"town": town}, rows),
        *looks,
        ("RESERVE", {"hotel": f"{town}-{best}"}, "ok"),
    )


CHANCES: list[tuple[str, list[RecordedWork], RecordedWork]] = [
    ("all flats were empty", [_announced("Elm", None, None)], _announced("Oak", "ann@x.example", None)),
    ("the high one came first", [_claims("H-9", 950, 600, 100)], _claims("N-7", 700, 990)),
    (
        "a name has the word",
        [_tracks("kettle", "pillow-mix", ("kettle", "pillow"), ("other", "lamp"))],
        _tracks("ladder", "hammer-mix", ("other", "hammer"), ("ladder", "lamp")),
    ),
    (
        "there was nothing to replace",
        [_replaced("basket", "annaware", "lists/a-1.txt", "kettle costs 3\n" * 4)],
        _replaced("ladder", "bobware", "lists/b-2.txt", "ladder costs 4\n" * 4),
    ),
    ("they were in order", [_pupils("art-1", "Amara", "Bela", "Chidi")], _pupils("art-2", "Ines", "Bela")),
    (
        "it was one file",
        [_level("a-1.yml", "lamp", 71, "error"), _level("b-2.yml", "lamp", 82, "warning")],
        _level("c-3.yml", "desk", 93, "error"),
    ),
    (
        "the cheapest had the fewest stars",
        [_room("Rome", (3, 90), (2, 70)), _room("Bonn", (1, 50), (4, 80), (3, 60))],
        _room("Oslo", (3, 90), (4, 70)),
    ),
    (
        "the same test failed",
        [_failing("a/one", "x-1.log", "test_lamp"), _failing("b/two", "y-2.log", "test_lamp")],
        _failing("c/six", "z-3.log", "test_desk"),
    ),
]


@pytest.mark.parametrize(("runs", "other"), [one[1:] for one in CHANCES], ids=[one[0] for one in CHANCES])
async def test_what_was_so_by_chance_is_no_plan_that_is_silently_wrong(
    runs: list[RecordedWork], other: RecordedWork
) -> None:
    try:
        made = await distil_all(runs, {}, ["monday", "tuesday"][: len(runs)])
    except CallsheetError:
        return  # no plan
    if made.plan.unexplained:
        return  # whoever runs it is asked
    told = Retelling(made.work.said, other.said)
    given = {
        name: value if (said := told.value_for(value)) is None else said
        for name, value in made.plan.inputs.items()
    }
    trial = await tried(made.plan, given, other.calls, {})
    assert trial.is_same or "the recorded run does not show" in trial.error, made.plan.text


def _place(work: RecordedWork) -> JSON:
    """What the user has named of which the items are listed."""
    return next(value for call in work.calls if call.tool.startswith("LIST") for value in call.args.values())


def _moved(day: str, days: int, to: str, *hours: str) -> RecordedWork:
    rows: list[JSON] = [
        {"id": f"e-{hour}", "start": f"{day}T{hour}", "by": f"{hour[:2]}@x"} for hour in hours
    ]
    moves: list[Any] = []
    for hour in hours:
        moves.append(("MOVE_EVENT", {"id": f"e-{hour}", "start": f"{to}T{hour}"}, "ok"))
        moves.append(("SEND_MAIL", {"to": f"{hour[:2]}@x", "text": f"now on {to} at {hour}"}, "ok"))
    return _work(f"move the events of {day} by {days} days", ("LIST_EVENTS", {"day": day}, rows), *moves)


def _restocked(shop: str, *stocks: tuple[int, int]) -> RecordedWork:
    rows: list[JSON] = [{"sku": f"{shop}{n}", "stock": a, "least": b} for n, (a, b) in enumerate(stocks)]
    orders = [
        ("ORDER", {"sku": f"{shop}{n}", "count": 2 * b - a}, "ok") for n, (a, b) in enumerate(stocks) if a < b
    ]
    said = f"order what has less stock than the least from {shop}, so that we have twice the least"
    return _work(said, ("LIST_GOODS", {"shop": shop}, rows), *orders)


def _billed(trip: str, phone: str, day: str, spoken: str, km: int, cents: int) -> RecordedWork:
    found: JSON = {"phone": phone, "ended": f"{day}T18:20:00Z", "km": km, "cents": cents}
    text = f"Your trip of {spoken} over {km:,} km costs {cents / 100:.2f} EUR"
    sent = ("SEND_TEXT", {"phone": phone.replace(" ", ""), "text": text}, "ok")
    return _work(f"text what trip {trip} costs", ("GET_TRIP", {"trip": trip}, found), sent)


def _claimed(car: str, high: int, *damages: tuple[str, int]) -> RecordedWork:
    rows: list[JSON] = [{"part": part, "cost": cost} for part, cost in damages]
    claims = [
        ("CLAIM", {"part": part, "urgency": "high" if cost >= high else "normal"}, "ok")
        for part, cost in damages
    ]
    said = (
        f"claim all damages of {car}, with urgency high for what costs at least {high} EUR and normal below"
    )
    return _work(said, ("LIST_DAMAGES", {"car": car}, rows), *claims)


def _answered(job: str, points: int, *scores: int) -> RecordedWork:
    rows: list[JSON] = [{"id": f"{job}-{n}", "points": score} for n, score in enumerate(scores)]
    calls: list[Any] = []
    for n, score in enumerate(scores):
        stage = "talk" if score >= points else "declined"
        calls.append(("MOVE", {"id": f"{job}-{n}", "stage": stage}, "ok"))
        calls += [("WRITE_TO", {"id": f"{job}-{n}"}, "ok")] * (score < points)
    said = (
        f"invite those who want to be {job} and have at least {points} points, decline the others in writing"
    )
    return _work(said, ("LIST_APPLICANTS", {"job": job}, rows), *calls)


def _renewed(card: str, day: str, *loans: tuple[str, int]) -> RecordedWork:
    rows: list[JSON] = [
        {"id": f"{card}-{n}", "due": due, "reserved": count} for n, (due, count) in enumerate(loans)
    ]
    due = [
        row["id"] for row in rows if isinstance(row, dict) and str(row["due"]) < day and not row["reserved"]
    ]
    said = f"renew the loans of {card} that are due before {day} unless somebody reserved them"
    return _work(said, ("LIST_LOANS", {"card": card}, rows), *(("RENEW", {"id": one}, "ok") for one in due))


def _flown(town: str, hour: str, *flights: tuple[str, int, int]) -> RecordedWork:
    rows: list[JSON] = [
        {"id": f"{town}-{n}", "departs": f"2027-03-05T{at}:00", "fare": fare, "seats": seats}
        for n, (at, fare, seats) in enumerate(flights)
    ]
    fit = [(fare, n) for n, (at, fare, seats) in enumerate(flights) if seats and at >= hour]
    said = f"book the cheapest flight with seats to {town} at {hour} or later"
    return _work(said, ("LIST_FLIGHTS", {"to": town}, rows), ("BOOK", {"id": f"{town}-{min(fit)[1]}"}, "ok"))


@pytest.mark.parametrize(
    "runs",
    [
        (_moved("2027-03-17", 7, "2027-03-24", "08:00", "09:30"),
         _moved("2027-05-22", 2, "2027-05-24", "10:00"),
         _moved("2027-01-28", 14, "2027-02-11", "11:15", "12:00")),
        (_restocked("Elm", (3, 24), (50, 40), (17, 33)), _restocked("Oak", (9, 31), (12, 28), (60, 8)),
         _restocked("Ash", (5, 6), (40, 39), (0, 19))),
        (_billed("T-1", "+31 6 2867 7387", "2026-11-03", "3 November 2026", 1_204, 18_764),
         _billed("T-2", "+31 6 8454 4046", "2026-02-22", "22 February 2026", 2_377, 9_950),
         _billed("T-3", "+47 9 1203", "2026-12-09", "9 December 2026", 31_006, 120)),
        (_claimed("A-1", 900, ("door", 1200), ("wheel", 300), ("lid", 950)),
         _claimed("B-2", 500, ("mirror", 200), ("hood", 700)),
         _claimed("C-3", 300, ("roof", 300), ("seat", 299))),
        (_answered("baker", 60, 71, 33, 58), _answered("clerk", 75, 70, 90, 88),
         _answered("cook", 50, 50, 49)),
        (_renewed("c-1", "2026-10-01", ("2026-09-20", 0), ("2026-10-15", 0), ("2026-09-29", 1)),
         _renewed("c-2", "2026-11-10", ("2026-12-01", 0), ("2026-11-02", 0), ("2026-11-03", 2)),
         _renewed("c-3", "2027-01-05", ("2027-01-04", 3), ("2027-01-03", 0))),
        (_flown("OSL", "13:00", ("08:20", 50, 3), ("14:05", 90, 2), ("16:40", 70, 0), ("17:10", 120, 4)),
         _flown("LIS", "10:00", ("09:45", 60, 1), ("10:20", 80, 0), ("12:05", 110, 5), ("13:20", 140, 2)),
         _flown("PRG", "15:00", ("15:00", 75, 1), ("14:59", 20, 9), ("18:05", 80, 2))),
    ],
)  # fmt: skip
async def test_plan_of_two_runs_does_for_a_third_what_its_run_did(
    runs: tuple[RecordedWork, RecordedWork, RecordedWork],
) -> None:
    *known, other = runs
    made = await distil_all(known, {}, ["monday", "tuesday"])
    told = Retelling(made.work.said, other.said)
    inputs = {name: told.value_for(value) for name, value in made.plan.inputs.items()}
    trial = await tried(made.plan, inputs, other.calls, {})
    assert trial.is_same, f"{trial.error}\n{made.plan.text}"


async def test_figure_of_a_list_with_one_row_is_not_one_of_all() -> None:
    """The missing ones are those of the only article, which another time are those of each."""
    rows: list[JSON] = [{"sku": "a-1", "stock": 32, "least": 57}, {"sku": "a-2", "stock": 90, "least": 12}]
    said = "order the articles with less stock than the least, altogether"
    works = _work(said, ("LIST_ARTICLES", {}, rows), ("ORDER", {"sku": "a-1", "count": 25}, "ok"))
    assert "sum(" not in (await distil_all([works], {}, ["monday"])).plan.text


async def test_number_of_the_user_is_taken_before_a_field_with_the_same_value() -> None:
    """The chosen hotel has as many rooms as the user has guests, and all expenses lack a receipt."""
    hotels: list[JSON] = [
        {"id": "h-1", "night_rate": 80, "rooms": 7},
        {"id": "h-2", "night_rate": 60, "rooms": 2},
    ]
    said = "book the cheapest hotel of at most 90 a night in Graz for 2 guests"
    booked = ("BOOK_HOTEL", {"hotel": "h-2", "guests": 2}, "ok")
    hotel = await distil_all([_work(said, ("LIST_HOTELS", {"town": "Graz"}, hotels), booked)], {}, ["monday"])
    assert "guests=guests" in hotel.plan.text

    rows: list[JSON] = [{"amount": 120.25, "receipt": None}, {"amount": 310.5, "receipt": None}]
    said = "report the expenses of Ida: the total, and how many have no receipt"
    report = ("CREATE_REPORT", {"total": 430.75, "without": 2}, "ok")
    work = _work(said, ("LIST_EXPENSES", {"of": "Ida"}, rows), report)
    made = await distil_all([work], {}, ["monday"])
    others = _work(said, ("LIST_EXPENSES", {"of": "Ida"}, [*rows, {"amount": 9.5, "receipt": "r"}]))
    trial = await tried(made.plan, made.plan.inputs, others.calls, {})
    assert "the recorded run does not show" in trial.error, made.plan.text
