"""Runs with a call in doubt and an open question: each waits for its own decision."""

from pathlib import Path

from callsheet import Answer, RunStatus, Runtime, TookPlace, tool
from callsheet.api.arguments import ToolSource
from callsheet.ports.calls import ToolFailed

APART = """
S1: @SEND ("ada") > $sent
S2: @RESPOND ("$sent")
"""
TOGETHER = """
@PARALLEL {
S1: @SEND ("ada") > $sent
S2: @ASK_HUMAN ("go on?") > $said
}
S3: @RESPOND ("$sent, $said")
"""


class Mail:
    """A tool whose first answer is lost; it counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def tool(self) -> ToolSource:
        @tool(effect="unsafe")
        def send(to: str) -> str:
            self.calls += 1
            if self.calls == 1:
                raise ToolFailed("the line went dead", in_doubt=True)
            return f"sent to {to}"

        return send


async def test_repeated_call_needs_new_approval(tmp_path: Path) -> None:
    mail = Mail()
    runtime = Runtime([mail.tool()], journal=tmp_path / "runs.db", approve=["SEND"])
    await runtime.run(APART, run_id="mail")
    await runtime.answer("mail", "S1")
    assert (await runtime.resume("mail")).status is RunStatus.IN_DOUBT
    assert (await runtime.decide("mail", "S1", "retry")).status is RunStatus.RUNNING
    assert (await runtime.resume("mail")).status is RunStatus.WAITING
    assert mail.calls == 1
    await runtime.answer("mail", "S1")
    assert (await runtime.resume("mail")).response == "sent to ada"


async def test_call_decided_as_done_asks_nobody_again(tmp_path: Path) -> None:
    mail = Mail()
    runtime = Runtime([mail.tool()], journal=tmp_path / "runs.db", approve=["SEND"])
    await runtime.run(APART, run_id="mail")
    await runtime.answer("mail", "S1")
    await runtime.resume("mail")
    await runtime.decide("mail", "S1", TookPlace("it arrived"))
    assert (await runtime.resume("mail")).response == "it arrived"
    assert mail.calls == 1


async def test_answer_is_accepted_while_call_is_in_doubt(tmp_path: Path) -> None:
    runtime = Runtime([Mail().tool()], journal=tmp_path / "runs.db")
    first = await runtime.run(TOGETHER, run_id="mail")
    assert [c.key for c in first.in_doubt] == ["S1.0.1"]
    assert [a.key for a in first.waiting] == ["S2.0.1"]
    await runtime.answer("mail", "S2", Answer.of("yes"))
    second = await runtime.resume("mail")
    assert [c.key for c in second.in_doubt] == ["S1.0.1"]
    assert not second.waiting
    await runtime.decide("mail", "S1", "retry")
    assert (await runtime.resume("mail")).response == "sent to ada, yes"


async def test_decision_is_accepted_while_question_is_open(tmp_path: Path) -> None:
    runtime = Runtime([Mail().tool()], journal=tmp_path / "runs.db")
    await runtime.run(TOGETHER, run_id="mail")
    await runtime.decide("mail", "S1", TookPlace("it arrived"))
    assert (await runtime.resume("mail")).status is RunStatus.WAITING
    await runtime.answer("mail", "S2", Answer.of("yes"))
    assert (await runtime.resume("mail")).response == "it arrived, yes"


async def test_dry_run_reports_approval_rules_of_runtime() -> None:
    told = await Runtime([Mail().tool()], approve=["SEND"]).dry_run(TOGETHER)
    assert told.totals.to_approve == ("S1",)
