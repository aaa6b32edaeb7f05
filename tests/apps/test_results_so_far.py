"""`callsheet at` without an event: the results so far of the loops of a run that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from callsheet import Runtime

if TYPE_CHECKING:
    from tests.apps.conftest import Machine

PLAN = """# ltp: 2
PLAN row ($n: int) {
  ?IF ($n == 1) THEN FAIL ("not 1")
  ?IF ($n == 3) THEN @ASK_HUMAN ("3?", options=["yes", "no"]) > $said
  RETURN ([$n, "row $n"])
}
S1: ?FOREACH ($n IN range(5)) TOGETHER MAX 2 {
  S2: CALL row (n=$n) > $r
  YIELD ($r)
} > $rows
@RESPOND ($rows)
"""


def test_run_that_waits_has_the_results_and_failures_of_its_items_so_far(machine: Machine) -> None:
    machine.write("plan.ltp", PLAN)
    assert machine("run", "plan.ltp", "--run-id", "r").exit_code == 4
    told = 'loop     S1 > $rows: 3 of 5 items done, 1 failed; so far [[0,"row 0"],[2,"row 2"],[4,"row 4"]]\n'
    assert told in machine("at", "r").stdout
    (loop,) = machine.json("at", "r")["loops"]
    assert (loop["loop"], loop["variable"], loop["items"]) == ("S1", "rows", 5)
    assert [(one["item"], one["value"]) for one in loop["ended"]] == [
        *((0, [0, "row 0"]), (1, None), (2, [2, "row 2"]), (4, [4, "row 4"]))
    ]
    assert [one["error"] and "not 1" in one["error"] for one in loop["ended"]] == [*(None, True, None, None)]
    assert Runtime(journal=machine.journal).at_sync("r").loops[0].results[2] == [2, "row 2"]


def test_loops_of_a_run_that_has_ended_are_its_variables(machine: Machine) -> None:
    machine.write("plan.ltp", PLAN.replace("range(5)", "[0, 2]"))
    assert machine("run", "plan.ltp", "--run-id", "r").exit_code == 0
    assert machine.json("at", "r")["loops"] == []


def test_results_that_are_computed_from_a_secret_are_withheld(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "sesame-open-1234")
    plan = PLAN.replace("# ltp: 2\n", "# ltp: 2\nINPUT $token: str\n")
    machine.write("plan.ltp", plan.replace("YIELD ($r)", "YIELD (len($token) + $n)"))
    given = ("run", "plan.ltp", "--run-id", "r", "--secret", "token=env:TOKEN")
    assert machine(*given).exit_code == 4
    (loop,) = machine.json("at", "r")["loops"]
    assert {str(one["value"]) for one in loop["ended"] if one["error"] is None} == {
        "[withheld: computed from a sealed value]"
    }


def test_results_with_copies_of_a_secret_show_nothing_that_is_cut_from_it_or_counted(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "sesame-open-1234")
    plan = PLAN.replace("# ltp: 2\n", "# ltp: 2\nINPUT $token: str\n")
    machine.write("plan.ltp", plan.replace("YIELD ($r)", "YIELD ([$token, $token[0:3], len($token)])"))
    assert machine("run", "plan.ltp", "--run-id", "r", "--secret", "token=env:TOKEN").exit_code == 4
    (loop,) = machine.json("at", "r")["loops"]
    copy, *others = next(one["value"] for one in loop["ended"] if one["error"] is None)
    assert copy.startswith("[sealed ")
    assert others == ["[withheld: computed from a sealed value]"] * 2


TOOLS = """from callsheet import tool

@tool(effect="read")
def look_up() -> list:
    return [{"id": "one", "key": "ghp_" + "a1B2" * 9}, {"id": "two", "key": ""}]
"""
_WITHHELD = "[withheld: computed from a sealed value]"


def _looked_up(machine: Machine, rest: str, inputs: str = "") -> None:
    """Run a plan whose first statement gives a list with a credential in it."""
    machine.write("tools.py", TOOLS)
    machine.write("plan.ltp", f"# ltp: 2\n{inputs}S1: @LOOK_UP () > $rows\n{rest}")
    assert machine("run", "plan.ltp", "--tools", "tools.py", "--run-id", "r").exit_code in (0, 4)


def test_what_is_computed_from_a_result_that_is_sealed_is_withheld_in_every_view(machine: Machine) -> None:
    _looked_up(
        machine, "LET $n = len($rows[0].key)\nLET $cut = $rows[0].key[0:6]\nLET $m = $n + 2\n@RESPOND ($m)\n"
    )
    for command in ("at", "show"):
        shown = machine.json(command, "r")["variables"]
        assert [shown[name] for name in ("n", "cut", "m")] == [_WITHHELD] * 3, command
    assert machine.json("show", "r")["response"] == "42"
    assert "withheld, it is computed from a sealed value" in machine("why", "r", "n").stdout


def test_what_loops_computed_from_sealed_results_is_withheld_when_their_items_are_done(
    machine: Machine,
) -> None:
    loop = "S2: ?FOREACH ($i IN [1, 2]) {\n  @LOOK_UP () > $t\n  YIELD (len($t[0].key))\n} > $all\n"
    _looked_up(machine, f"{loop}@RESPOND ($all[0] + 2)\n")
    for command in ("at", "show"):
        assert machine.json(command, "r")["variables"]["all"] == _WITHHELD, command
    assert f"$all = {_WITHHELD}" in machine("show", "r").stdout.split("\n\n")[1]
    assert machine.json("show", "r")["response"] == "42"


def test_an_item_of_a_list_with_sealed_parts_shows_the_others(machine: Machine) -> None:
    loop = 'S2: ?FOREACH ($row IN $rows) {\n  @ASK_HUMAN ("${row.id}?") > $a\n  YIELD ($a)\n} > $all\n'
    _looked_up(machine, f"{loop}@RESPOND (len($all))\n", 'INPUT SECRET $pw: str = "correct-horse"\n')
    shown = machine.json("at", "r")["variables"]
    assert [shown[f"S2[{n}]/row"]["id"] for n in (0, 1)] == ["one", "two"]
    assert shown["S2[0]/row"]["key"].startswith("[sealed ")
