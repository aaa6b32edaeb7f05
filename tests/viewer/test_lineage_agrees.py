"""The viewer and `callsheet why` agree on where values come from and go to."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import playwright
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.plans import plan_of, plan_texts
from tests.views.report.test_document import run_of

from callsheet.frontends.spelling import read_plan_text
from callsheet.ir import JSON
from callsheet.runtime.reporting import recorded, report_document
from callsheet.trace.lineage.lineage import NONE, Lineage
from callsheet.trace.lineage.slices import Flow, Node, flows_from, flows_into, items_in

ASK = """
import { Model } from "./model.mjs";
import { readFileSync } from "node:fs";
const made = new Model(JSON.parse(readFileSync(0, "utf8")));
const told = (flow) => [flow.role, flow.argument, flow.name, flow.write, flow.path];
console.log(JSON.stringify(made.writes.map((write) => ({
  into: made.sourcesOf(write, []).map(told),
  items: [0, 1, 2].map((n) => made.sourcesOf(write, [n]).map(told)),
  from: made.usesOf(write, []).map((flow) => [flow.visit.n, flow.write]),
}))));
"""


def node() -> str:
    """A JavaScript runtime: that of the system, or that of the browser driver."""
    driver = Path(playwright.__file__).parent / "driver" / "node"
    found = shutil.which("node") or (str(driver) if driver.exists() else None)
    if found is None:
        pytest.skip("no node here, and playwright brought none")
    return found


@pytest.fixture
def ask(tmp_path: Path):
    """Query the model of the viewer about every write of a document."""
    program = node()
    (tmp_path / "model.mjs").write_text((files("callsheet.views") / "viewer" / "model.js").read_text())
    (tmp_path / "ask.mjs").write_text(ASK)

    def of(document: dict[str, JSON]) -> list[dict[str, Any]]:
        done = subprocess.run(
            [program, "ask.mjs"],
            check=False,
            input=json.dumps(document),
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return of


def whole(flows: list[Flow] | tuple[Flow, ...]) -> set[tuple[str, str, str, int]]:
    return {(str(flow.role), flow.argument, flow.name, flow.node.write) for flow in flows}


def agrees(lineage: Lineage, number: int, told: dict[str, Any]) -> None:
    write = lineage.writes[number]
    visit = None if write.visit == NONE else lineage.visits[write.visit]
    has_items = visit is None or lineage.step(visit).foreach is None or bool(items_in(lineage, visit))
    mine = whole(flows_into(lineage, Node(number, ())))
    theirs = {tuple(flow[:4]) for flow in told["into"]}
    assert mine == theirs if has_items else mine <= theirs
    if visit is not None and lineage.step(visit).foreach is not None and isinstance(write.value, list):
        for place in range(min(3, len(write.value))):
            flows = flows_into(lineage, Node(number, (place,)))
            assert whole(flows) == {tuple(flow[:4]) for flow in told["items"][place]}
    reached = {
        (reader.id, flow.node.write)
        for flow in flows_from(lineage, Node(number, ()))
        for reader in lineage.visits
        if flow.node.write in (lineage.write_of.get(reader.id, NONE), lineage.answer)
        and number in reader.versions
    }
    assert reached <= {tuple(pair) for pair in told["from"]} | {
        (reader, made) for reader, made in reached if made == lineage.answer
    }


SHRINKING = """S1: ?FOREACH ($i IN ["x", $a, $b]) THEN @READ ($i, $a) > $a ON_FAIL GOTO S1
S2: GOTO S1
S3: @RESPOND ("end $a", $b, $c)"""
"""A loop that failed has fewer results than items."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(plan_texts(), st.integers(0, 2**32 - 1))
@example(SHRINKING, 0)
def test_viewer_and_command_agree_for_any_run(journal, ask, text, world):
    run_of(journal, plan_of(text), world)
    lineage = recorded(journal, "last").lineage()
    for number, told in enumerate(ask(report_document(journal, "last").to_json())):
        agrees(lineage, number, told)


BLOCKS = read_plan_text("""# ltp: 2
PLAN part ($x: json) -> json {
  S1: @READ (x=$x) > $y
  RETURN ([$y, $x])
}
S2: ?FOREACH ($i IN [1, $a, $b]) {
  S3: CALL part (x=$i) > $made ON_FAIL {
    LET $made = [$error.kind, 0]
  }
  ?IF ($i == 1) {
    S4: @FAULTY (x=$made[0]) > $last ON_FAIL USE ([$made])
  } ELSE {
    LET $last = [$made[1], "x"]
  }
  YIELD ([$last, $i])
} > $all
LET $n = 1
LET $one = $all[$n]
S5: @RESPOND ({"all": $all, "one": $one[0]})
""").result.require()


def test_viewer_and_command_agree_for_plans_with_blocks(journal, ask):
    for world in range(3):
        run_of(journal, BLOCKS, world)
        lineage = recorded(journal, "last").lineage()
        told = ask(report_document(journal, "last").to_json())
        assert len(told) == len(lineage.writes) > 20
        for number, each in enumerate(told):
            assert whole(flows_into(lineage, Node(number, ()))) == {tuple(flow[:4]) for flow in each["into"]}
            if isinstance(lineage.writes[number].value, list):
                for place in range(min(3, len(lineage.writes[number].value))):
                    flows = {
                        (*_head(flow), flow.node.path) for flow in flows_into(lineage, Node(number, (place,)))
                    }
                    assert flows == {(*flow[:4], tuple(flow[4])) for flow in each["items"][place]}
            made = {flow.node.write for flow in flows_from(lineage, Node(number, ()))}
            assert made == {write for _, write in each["from"] if write != NONE}


def _head(flow: Flow) -> tuple[str, str, str, int]:
    return str(flow.role), flow.argument, flow.name, flow.node.write
