"""Reconcilers: calls in doubt that other tools settle, by a condition on their answer or by a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet import CallsheetError, Runtime, tool
from callsheet.ports.calls import ToolFailed
from callsheet.ports.python_tools.load import load_tools
from callsheet.store import Journal

PLAN = '# ltp: 2\nS1: @OPEN_ISSUE (title="a bug") > $issue\n@RESPOND ($issue)\n'
APPEARED = """# ltp: 2
INPUT $title: str
INPUT $key: str
S1: @FIND_ISSUES (title=$title) > $found
LET $mine = [i for i in $found if i.key == $key]
?IF ($mine) {
  @RESPOND ({"happened": True, "value": $mine[0].id})
}
@RESPOND ({"happened": False})
"""
ELSEWHERE = """# ltp: 2
INPUT $title: str
S1: @READ_FILE (path=$title) > $found ON_FAIL USE ("")
@RESPOND ({"happened": $found != ""})
"""
CONDITION = {
    "probe": "find_issues(title=call.title)",
    "happened": "any(i.key == $key for i in $answer)",
    "value": "[i.id for i in $answer if i.key == $key][0]",
}


class Tracker:
    """A tracker of issues whose answers get lost, before or after the issue is there."""

    def __init__(self, loses: str) -> None:
        self.issues: list[dict[str, Any]] = []
        self.loses = loses
        self.sent = 0

    def runtime(self, folder: Path, policy: str | None = None, **declared: Any) -> Runtime:
        @tool(effect="probe", key_argument="key", **declared)
        def open_issue(title: str, key: str) -> int:
            self.sent += 1
            loses, self.loses = self.loses, ""
            if loses != "request":
                self.issues.append({"id": len(self.issues) + 1, "title": title, "key": key})
            if loses:
                raise ToolFailed("the connection is gone", in_doubt=True)
            return len(self.issues)

        @tool(effect="read")
        def find_issues(title: str) -> list[dict[str, Any]]:
            return [issue for issue in self.issues if issue["title"] == title]

        @tool
        def close_all(title: str) -> list[dict[str, Any]]:
            self.issues.clear()
            return []

        return Runtime(
            [open_issue, find_issues, close_all],
            policy=policy,
            journal=folder / "j.db",
            builtins=True,
            workspace=folder,
        )


@pytest.mark.parametrize("declared", [CONDITION, {"probe": APPEARED}], ids=["condition", "plan"])
@pytest.mark.parametrize(("loses", "sent"), [("request", 2), ("answer", 1)])
def test_doubtful_write_is_settled_by_a_tool_that_reads_or_by_a_plan(
    tmp_path: Path, declared: dict[str, str], loses: str, sent: int
) -> None:
    tracker = Tracker(loses)
    result = tracker.runtime(tmp_path, **declared).run_sync(PLAN)
    assert (str(result.status), result.answer) == ("done", 1)
    assert (tracker.sent, len(tracker.issues)) == (sent, 1)
    with Journal.open(tmp_path / "j.db") as journal:
        decided = [row for row in journal.events(result.run_id) if row.type == "decided"]
    assert [(row.body or {})["by"] for row in decided] == ["probe"]


@pytest.mark.parametrize(("declared", "status"), [(CONDITION, "done"), ({"probe": ELSEWHERE}, "in_doubt")])
def test_under_a_policy_only_tools_from_the_same_place_are_told_of_a_call(
    tmp_path: Path, declared: dict[str, str], status: str
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('schema = 1\nextends = "workspace"\n[class]\nwrites = ["open_issue"]\n')
    tracker = Tracker("answer")
    result = tracker.runtime(tmp_path, str(policy), **declared).run_sync(PLAN)
    assert (str(result.status), tracker.sent) == (status, 1)
    for call in result.in_doubt:
        assert "the policy does not let @READ_FILE be told of the call: it comes from elsewhere" in call.why


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({**CONDITION, "probe": "close_all(title=call.title)"}, "@CLOSE_ALL may change something"),
        ({"probe": APPEARED.replace("FIND_ISSUES", "CLOSE_ALL")}, "@CLOSE_ALL may change something"),
        ({**CONDITION, "happened": "$answer.key == $key"}, "its condition fails"),
        ({**CONDITION, "probe": "find_isues(title=call.title)"}, "no tool is called @FIND_ISUES"),
        ({"probe": APPEARED.replace('{"happened": False}', "1")}, "could not determine"),
        (
            {"probe": APPEARED.replace("S1: @FIND_ISSUES (title=$title)", 'S1: @ASK_HUMAN ("?")')},
            "asks for more than calls that read",
        ),
    ],
)
def test_probe_that_cannot_tell_leaves_the_call_in_doubt_and_says_why(
    tmp_path: Path, declared: dict[str, str], why: str
) -> None:
    tracker = Tracker("request")
    runtime = tracker.runtime(tmp_path, **declared)
    result = runtime.run_sync(PLAN)
    assert str(result.status) == "in_doubt"
    assert (tracker.sent, tracker.issues) == (1, [])
    with Journal.open(tmp_path / "j.db") as journal:
        said = " ".join(str(row.body) for row in journal.events(result.run_id) if row.type == "in_doubt")
    assert why in said


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"probe": "find_issues(title=call.title)"}, "needs a condition"),
        ({"probe": "find_issues(call.title)", "happened": "True"}, "need names"),
        ({"probe": "find_issues(title=call.title)", "happened": "$answr"}, "$answr is not known here"),
        ({"probe": "find_issues(title=call.title)", "happened": "len($answer"}, "is no expression"),
        ({"probe": "none.ltp"}, "cannot be read"),
        ({"probe": "# ltp: 2\nS1: @F (\n"}, "has an error"),
        ({"probe": APPEARED, "happened": "True"}, "a plan says itself"),
        ({"probe": lambda: False, "happened": "True"}, "judge the answer"),
    ],
)
def test_declaration_that_says_no_probe_is_refused_with_the_way_to_write_one(
    tmp_path: Path, declared: dict[str, Any], why: str
) -> None:
    with pytest.raises(CallsheetError) as refused:
        Tracker("").runtime(tmp_path, **declared)
    (found,) = refused.value.diagnostics
    assert (found.code, why in f"{found.message} {found.help}") == ("CFG105", True), found


def test_call_that_its_probe_keeps_missing_waits_for_a_person(tmp_path: Path) -> None:
    sent = list[int]()

    def finds_nothing(n: int) -> bool:
        return False

    @tool(effect="probe", probe=finds_nothing)
    def put(n: int) -> str:
        sent.append(n)
        if len(sent) <= 5:
            raise ToolFailed("the connection is gone", in_doubt=True)
        return f"put {n}"

    runtime = Runtime([put], journal=tmp_path / "j.db")
    run = runtime.run_sync("# ltp: 2\nS1: @PUT (n=1) > $x\n@RESPOND ($x)\n")
    for number, verdict in ((4, None), (4, "retry"), (5, "retry")):
        (call,) = run.in_doubt
        assert (str(run.status), call.step, len(sent)) == ("in_doubt", "S1", number)
        assert call.why == f"it was made {number} times, and its probe finds nothing"
        run = runtime.resume_sync(run.run_id, in_doubt=verdict)
    assert (run.answer, len(sent)) == ("put 1", 6)


def test_file_of_a_plan_stands_beside_the_tools(tmp_path: Path) -> None:
    (tmp_path / "appeared.ltp").write_text(APPEARED)
    (tmp_path / "tools.py").write_text(
        "from callsheet import tool\n"
        '@tool(effect="probe", key_argument="key", probe="appeared.ltp")\n'
        "def open_issue(title: str, key: str) -> int:\n    return 1\n"
    )
    (found,) = load_tools(tmp_path / "tools.py")
    assert found.reconciler is not None
