"""What a plan changes with each of its conditions true and false, foreseen without a call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

import pytest
from click.testing import CliRunner

from callsheet import Runtime, tool
from callsheet.api.dryrun import MOST_CONDITIONS, Worlds
from callsheet.apps.cli.main import main


class Weather(TypedDict):
    rain: bool
    degrees: int
    sky: str


@tool(effect="read")
def forecast(city: str) -> Weather:
    """The weather."""
    raise AssertionError("a dry run calls nothing")


@tool(effect="read")
def events(day: str) -> list[dict[str, str]]:
    """The events of a day."""
    raise AssertionError("a dry run calls nothing")


@tool
def cancel(event: str) -> str:
    """Cancel an event."""
    raise AssertionError("a dry run calls nothing")


@tool
def heat(degrees: int) -> str:
    """Set the heating."""
    raise AssertionError("a dry run calls nothing")


def worlds(body: str, **inputs: object) -> Worlds:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    head = f"async def main({', '.join(f'{name}: int' for name in inputs)}):"
    plan = f'{head}\n    w = await forecast(city="Bergen")\n{lines}\n'
    return Runtime([forecast, events, cancel, heat]).dry_run_sync(plan, inputs).worlds()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            'if w["rain"]:\n    await cancel(event="e-5")',
            ['if w["rain"]:', '  cancel(event="e-5")', 'if not w["rain"]:', "  nothing of this"],
        ),
        (
            'if w["rain"]:\n    return 1\nawait cancel(event="e-5")',
            ['if w["rain"]:', "  nothing of this", 'if not w["rain"]:', '  cancel(event="e-5")'],
        ),
        (
            'n = 18 if w["degrees"] > 20 else 22\nawait heat(degrees=n)',
            [
                'if w["degrees"] > 20:',
                "  heat(degrees=18)",
                'if not w["degrees"] > 20:',
                "  heat(degrees=22)",
            ],
        ),
        (  # a condition and its opposite are one
            'if w["rain"]:\n    await heat(degrees=1)\nif not w["rain"]:\n    await heat(degrees=2)',
            ['if w["rain"]:', "  heat(degrees=1)", 'if not w["rain"]:', "  heat(degrees=2)"],
        ),
        (
            'if w["sky"] == "a":\n    await heat(degrees=1)\nif w["sky"] != "a":\n    await heat(degrees=2)',
            ['if w["sky"] == "a":', "  heat(degrees=1)", 'if not w["sky"] == "a":', "  heat(degrees=2)"],
        ),
        (  # independent conditions are told apart, and what neither decides stands first
            'await heat(degrees=0)\nif w["rain"]:\n    await cancel(event="a")\n'
            'if w["degrees"] > 9:\n    await cancel(event="b")',
            [
                "in any case:",
                "  heat(degrees=0)",
                'if w["rain"]:',
                '  cancel(event="a")',
                'if not w["rain"]:',
                "  nothing of this",
                'if w["degrees"] > 9:',
                '  cancel(event="b")',
                'if not w["degrees"] > 9:',
                "  nothing of this",
            ],
        ),
        (
            'if w["rain"]:\n    await cancel(event="e-5")\nelse:\n    await cancel(event="e-5")',
            ["in any case:", '  cancel(event="e-5")', 'whether or not w["rain"]: the same is changed'],
        ),
        ('if w["rain"]:\n    return "wet"\nreturn "dry"', ["in any case:", "  nothing is changed"]),
        (
            'for e in await events(day="Monday"):\n    if e["kind"] == "x":\n'
            '        await cancel(event=e["id"])',
            [
                'if e["kind"] == "x":',
                "  for each item of <list($events_1)>: cancel(event=<item of list($events_1).id>)",
                'if not e["kind"] == "x":',
                "  nothing of this",
            ],
        ),
        (
            "try:\n    await heat(degrees=1)\nexcept ToolError:\n    await heat(degrees=2)",
            ["in any case:", "  heat(degrees=1)", "  after a failure: heat(degrees=2)"],
        ),
    ],
)
def test_changes_are_told_with_each_condition_true_and_false(body: str, expected: list[str]) -> None:
    assert list(worlds(body).lines()) == expected


def test_nested_conditions_are_divided_only_where_it_makes_a_difference() -> None:
    body = (
        'if w["rain"]:\n    if w["degrees"] > 9:\n        await heat(degrees=1)\n'
        "    else:\n        await heat(degrees=2)"
    )
    (group,) = worlds(body).groups
    assert [(dict(case.holds), case.changes) for case in group] == [
        ({'w["rain"]': True, 'w["degrees"] > 9': True}, ("heat(degrees=1)",)),
        ({'w["rain"]': True, 'w["degrees"] > 9': False}, ("heat(degrees=2)",)),
        ({'w["rain"]': False}, ()),
    ]


def test_condition_on_variable_that_changes_is_another_one() -> None:
    body = (
        "n = w\nif n['rain']:\n    await heat(degrees=1)\n"
        'n = await forecast(city="Oslo")\nif n["rain"]:\n    await heat(degrees=2)'
    )
    assert len(worlds(body).groups) == 2


def test_conditions_beyond_the_most_are_left_open_and_told() -> None:
    body = "\n".join(
        f'if w["degrees"] > {n}:\n    await heat(degrees={n})' for n in range(MOST_CONDITIONS + 2)
    )
    told = worlds(body)
    assert told.left_open == (f'w["degrees"] > {MOST_CONDITIONS}', f'w["degrees"] > {MOST_CONDITIONS + 1}')
    assert told.always == tuple(f"perhaps: heat(degrees={n})" for n in (MOST_CONDITIONS, MOST_CONDITIONS + 1))
    assert "only the first 6 conditions are varied" in list(told.lines())[-1]


def test_command_tells_the_cases_as_text_and_as_data(tmp_path: Path) -> None:
    plan = tmp_path / "plan.ltp"
    plan.write_text(
        '# ltp: 2\nS1: @FORECAST (city="Bergen") > $w\n?IF ($w.rain) {\n  S2: @CANCEL (event="e-5")\n}\n'
    )
    tools = tmp_path / "tools.py"
    tools.write_text(
        "from callsheet import tool\n\n"
        '@tool(effect="read")\ndef forecast(city: str) -> dict: ...\n\n@tool\ndef cancel(event: str): ...\n'
    )

    def ran(*more: str) -> str:
        done = CliRunner().invoke(main, ["dry-run", str(plan), "--tools", str(tools), *more])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "in each case" not in ran()
    assert ran("--worlds").endswith(
        "what is changed in each case:\n"
        'if $w.rain:\n  cancel(event="e-5")\nif not $w.rain:\n  nothing of this\n'
    )
    assert json.loads(ran("--worlds", "--json"))["worlds"] == {
        "always": [],
        "groups": [
            [
                {"if": {"$w.rain": True}, "changes": ['cancel(event="e-5")']},
                {"if": {"$w.rain": False}, "changes": []},
            ]
        ],
        "undecided": [],
        "left_open": [],
    }
