"""Agents get an LCTL block on how sure their inputs are; what they return is checked on receipt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callsheet import AgentAnswer, AgentTask, Answer, ChatModel, RunStatus, Runtime, tool
from callsheet.lctl import Fact, Handoff, Work, receive, write
from callsheet.runtime.reporting import report_document
from callsheet.store import Journal

PLAN = """S1: @LOOK () > $seen
S2: @FETCH_NEWS () > $news
S3: @AGENT_SOLVE ($seen, goal="what is it?") > $found
S4: @RESPOND ($found)"""


@tool(effect="read")
def look() -> str:
    """Return the visible scene."""
    return "a red door"


@tool(effect="read")
def fetch_news() -> str:
    """A tool that the agent is not given."""
    return "the secret of the house"


def block(task: AgentTask, confidence: float, **fact: object) -> str:
    """The block that an agent following the protocol returns."""
    got = receive(task.lctl)
    found = Fact("A1", "it is a door", confidence, **fact)  # type: ignore[arg-type]
    work = Work(
        agent=got.document.chain.target or "",
        to="caller",
        instruction="go on",
        facts=[found],
        critical=["A1"],
    )
    return write(got.hand_on(work))


def remarks(path: Path) -> list[str]:
    with Journal.open_to_read(path) as journal:
        told = [row.body or {} for row in journal.events("r") if row.step == "S3" and row.type == "ok"]
    return [f"{r['fact']}: {r['text']}" for body in told for r in body.get("remarks", ()) if "fact" in r]


def test_block_contains_only_goal_and_inputs_with_their_confidence(
    tmp_path: Path,
) -> None:
    tasks: list[AgentTask] = []

    def agent(task: AgentTask) -> str:
        tasks.append(task)
        return "a door"

    path = tmp_path / "j.db"
    with Runtime([look, fetch_news], agent=agent, journal=path, agent_blocks="flag") as runtime:
        result = runtime.run_sync(PLAN, run_id="r")
        document = runtime.lctl_sync("r")
    assert result.response == "a door"
    got = receive(tasks[0].lctl, agent="S3:@AGENT_SOLVE")
    assert (got.instruction, got.document.chain.id) == ("what is it?", "r")
    assert [(f.text, f.confidence) for f in got.facts] == [('$seen = "a red door"', 0.95)]
    assert "secret" not in tasks[0].lctl
    assert isinstance(document, Handoff)
    assert document.facts["F3"].confidence == 0.60  # it has not said how sure it is
    assert remarks(path) == []


@pytest.mark.parametrize("plan", [PLAN, f"# ltp: 2\n{PLAN}"], ids=["version 1", "version 2"])
@pytest.mark.parametrize(("stated", "worth"), [(0.99, 0.85), (0.7, 0.7), (0.3, 0.3)])
def test_confidence_stated_by_agent_is_capped_at_085(
    tmp_path: Path, plan: str, stated: float, worth: float
) -> None:
    path = tmp_path / "j.db"

    def agent(task: AgentTask) -> AgentAnswer:
        return AgentAnswer("a door", block(task, stated))

    with Runtime([look, fetch_news], agent=agent, journal=path, agent_blocks="flag") as runtime:
        assert runtime.run_sync(plan, run_id="r").response == "a door"
        document = runtime.lctl_sync("r")
    assert document.facts["F3"].confidence == worth
    assert any(said.startswith("lctl: 2 facts") for said in remarks(path))


@pytest.mark.parametrize(("stated", "worth"), [(0.8, 0.6), (0.3, 0.3)])
def test_confidence_stated_by_agents_in_loop_is_capped_like_default(
    tmp_path: Path, stated: float, worth: float
) -> None:
    def agent(task: AgentTask) -> AgentAnswer:
        return AgentAnswer("a door", block(task, stated))

    loop = 'S1: ?FOREACH ($x IN ["a", "b"]) THEN @AGENT_SOLVE ($x, goal="what?") > $all\nS2: @RESPOND ($all)'
    with Runtime([], agent=agent, journal=tmp_path / "j.db", agent_blocks="flag") as runtime:
        assert runtime.run_sync(loop, run_id="r").ok
        document = runtime.lctl_sync("r")
    assert [fact.confidence for fact in document.facts.values()][-1] == worth


def test_block_in_answer_text_is_removed_from_it(tmp_path: Path) -> None:
    def agent(task: AgentTask) -> str:
        return f"It is a door.\n```yaml\n{block(task, 0.8)}```\n"

    with Runtime([look, fetch_news], agent=agent, journal=tmp_path / "j.db", agent_blocks="flag") as runtime:
        assert runtime.run_sync(PLAN, run_id="r").response == "It is a door."
        assert runtime.lctl_sync("r").facts["F3"].confidence == 0.8


DOUBTED = """lctl: "3.0"
chain: {id: r, step: 9, from: "S3:@AGENT_SOLVE", to: caller}
facts: {A1: {text: it is a door, confidence: %s}}
instruction: go on
"""
HEEDED = PLAN.replace("> $found", '> $found ON_FAIL TERMINATE ("no")')


def doubting(path: Path, rule: str, stated: float) -> Runtime:
    return Runtime(
        [look, fetch_news],
        agent=lambda task: AgentAnswer("a door", DOUBTED % stated),
        journal=path,
        agent_blocks=rule,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("rule", "stated", "status"),
    [
        ("flag", 0.3, RunStatus.DONE),
        ("block", 0.5, RunStatus.DONE),
        ("block", 0.3, RunStatus.FAILED),
        ("review", 0.5, RunStatus.WAITING),
        ("review", 0.3, RunStatus.WAITING),
        ("review", 0.7, RunStatus.DONE),
    ],
)
def test_instructions_explain_how_doubts_are_handled(
    tmp_path: Path, rule: str, stated: float, status: RunStatus
) -> None:
    with doubting(tmp_path / "j.db", rule, stated) as runtime:
        result = runtime.run_sync(HEEDED, run_id="r")
    failed = RunStatus.DONE if result.terminated else result.status
    assert (RunStatus.FAILED if failed is not result.status else result.status) is status, result.error


@pytest.mark.parametrize("is_driven", [False, True])
def test_answer_below_threshold_waits_for_approval_and_then_counts(tmp_path: Path, is_driven: bool) -> None:
    path = tmp_path / "j.db"

    def model(messages: list[dict[str, str]]) -> str:
        return json.dumps({"finish": "a door", "lctl": DOUBTED % 0.5})

    def runtime() -> Runtime:
        if not is_driven:
            return doubting(path, "review", 0.5)
        return Runtime([look, fetch_news], model=ChatModel(model), journal=path, agent_blocks="review")

    with runtime() as first:
        waits = first.run_sync(PLAN, run_id="r")
    (ask,) = waits.waiting
    assert (waits.status, ask.kind, ask.key, ask.tool) == (
        RunStatus.WAITING,
        "approval",
        "S3.0.1",
        "AGENT_SOLVE",
    )
    assert ask.answer == ("a door",)
    with Journal.open_to_read(path) as journal:
        document = report_document(journal, "r")
    (shown,) = document.asks
    assert document.values[shown["result"]] == '"a door"'  # the page asks about this
    assert ask.why == ("the agent is not sure enough of its answer: A1 below 0.60",)
    with runtime() as second:
        second.answer_sync("r", "S3", Answer.approve(by="Ada"), digest=ask.digest)
        done = second.resume_sync("r")
        document = second.lctl_sync("r")
    assert (done.status, done.response) == (RunStatus.DONE, "a door")
    assert document.facts["F3"].confidence == 0.5
    with Journal.open_to_read(path) as journal:
        assert journal.verify("r") is None
        types = [(row.type, row.key) for row in journal.events("r") if row.step == "S3"]
    assert [str(kind) for kind, _ in types] == ["intent", "ok", "ask", "signal"]


def test_denied_answer_fails_and_is_not_asked_again(tmp_path: Path) -> None:
    with doubting(tmp_path / "j.db", "review", 0.5) as runtime:
        runtime.run_sync(HEEDED, run_id="r")
        runtime.answer_sync("r", "S3", Answer.deny(by="Ada", note="it is a gate"))
        result = runtime.resume_sync("r")
    assert result.terminated
    assert result.variables["found"] == "denied by Ada: it is a gate"


def test_foreach_items_are_reviewed_separately(tmp_path: Path) -> None:
    plan = """S1: ?FOREACH ($i IN [1, 2]) THEN @AGENT_SOLVE ($i, goal="what is it?") > $all
S2: @RESPOND ($all)"""
    with doubting(tmp_path / "j.db", "review", 0.5) as runtime:
        keys: list[str] = []
        result = runtime.run_sync(plan, run_id="r")
        while result.waiting:
            keys += [ask.key for ask in result.waiting]
            for ask in result.waiting:
                runtime.answer_sync("r", ask.key, Answer.approve() if ask.key == "S1.0.1" else Answer.deny())
            result = runtime.resume_sync("r")
    assert keys == ["S1.0.1", "S1.1.1"]
    assert result.variables["all"] == ["a door", "denied"]


def test_invalid_block_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    raised = """lctl: "3.0"
chain: {id: other, step: 9, from: a, to: caller}
facts: {F1: {text: '$seen = "a red door"', confidence: 1.0}, A1: {text: sure, confidence: 0.8}}
instruction: go on
"""
    with Runtime(
        [look, fetch_news],
        agent=lambda task: AgentAnswer("a door", raised),
        journal=path,
        agent_blocks="flag",
    ) as runtime:
        assert runtime.run_sync(PLAN, run_id="r").response == "a door"
        assert runtime.lctl_sync("r").facts["F3"].confidence == 0.60
    (said,) = remarks(path)
    assert "rejected" in said
    assert "X01" in said
    assert "X13" in said


def test_agents_get_no_block_without_setting(tmp_path: Path) -> None:
    tasks: list[AgentTask] = []

    def agent(task: AgentTask) -> AgentAnswer:
        tasks.append(task)
        return AgentAnswer("a door", "lctl: nonsense")

    with Runtime([look, fetch_news], agent=agent, journal=tmp_path / "j.db") as runtime:
        assert runtime.run_sync(PLAN, run_id="r").response == "a door"
    assert tasks[0].lctl == ""
    with pytest.raises(ValueError, match="agent_blocks"):
        Runtime(agent_blocks="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["flag", None])
def test_driven_model_gets_block_and_may_return_one(tmp_path: Path, rule: str | None) -> None:
    asked: list[list[dict[str, str]]] = []
    reply = """lctl: "3.0"
chain: {id: r, step: 9, from: you, to: caller}
facts: {A1: {text: it is a door, confidence: 0.75}}
instruction: go on
"""

    def answer(messages: list[dict[str, str]]) -> str:
        asked.append(messages)
        if len(asked) == 1:
            return json.dumps({"tool": "look", "args": {}})
        return json.dumps({"finish": "a door", **({"lctl": reply} if rule else {})})

    path = tmp_path / "j.db"
    runtime = Runtime(
        [look, fetch_news],
        model=ChatModel(answer),
        journal=path,
        agent_blocks=rule,  # type: ignore[arg-type]
    )
    with runtime:
        assert runtime.run_sync(PLAN, run_id="r").response == "a door"
        document = runtime.lctl_sync("r")
    told = [message["content"] for message in asked[1]]
    assert ("How sure the data is" in told[1], '"lctl"' in told[0]) == (bool(rule), bool(rule))
    assert document.facts["F3"].confidence == (0.75 if rule else 0.60)
    assert ("stated confidence: 0.75" in remarks(path)) == bool(rule)
