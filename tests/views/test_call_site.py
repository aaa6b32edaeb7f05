"""Where a call stands in the text of its plan: what a person reads who is asked about it."""

import pytest

from callsheet.frontends.spelling import read_plan_text
from callsheet.ir import plan_hash, tree
from callsheet.views.call_site import CallSite, call_site

PYTHON = """\
async def reply(mail, greeting: str):
    if mail["amount"] > 100:  # somebody agreed to this
        return await send_mail(to=mail["from"], text=greeting)
    return None


async def main(kind: str):
    for mail in await list_mails(folder="inbox"):
        try:
            await reply(mail, "Thanks")
        except (ToolError, ValueError) as error:
            await log(
                text=f"{error}",
            )
        else:
            if mail["id"] == 1: await archive(mail_id=1)
            elif mail["id"] == 2: await delete(mail_id=2)
            else: await keep(mail_id=3)
        finally:
            await close(mail_id=mail["id"])
    match kind:
        case "a" | "b" if (
            kind != "c"
        ):
            while (await ask(kind=kind)) > 3:
                await wait(seconds=1)
        case _:
            await gather(*[other(n=n) for n in range(3) if n > 1])
    return "done"
"""
LTP = """\
# ltp: 2
INPUT $n: int
PLAN reply ($to: str) {
  ?IF ($to != "eve") {
    send: @SEND (to=$to)
  }
  RETURN (1)
}
?IF ($n == 1) {
  A: @FIRST ()
} ELSE IF ($n == 2) {
  B: @SECOND () ON_FAIL TOOL {
    C: @REPAIR (text="a {",
                more=2)
  }
} ELSE {
  each: ?FOREACH ($to IN ["ada"]) IN ORDER {
    call: CALL reply (to=$to)
  }
}
@RESPOND ("done")
"""


def site(text: str, key: str, tool: str) -> CallSite:
    plan = read_plan_text(text).result.require()
    found = call_site(text, plan_hash(plan), key, tool)
    assert found is not None
    return found


def shown(text: str, key: str, tool: str = "X") -> list[str]:
    lines = text.split("\n")
    found = site(text, key, tool).lines
    for number, line in found:
        assert line.strip() in lines[number - 1], "it is a line of the text, under its number"
    return [f"{number}|{line.strip()}" for number, line in found]


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        (
            "main.for_mail[2]/main.reply/reply.send_mail.1",
            [
                '8|for mail in await list_mails(folder="inbox"):',
                '10|await reply(mail, "Thanks")',
                '2|if mail["amount"] > 100:',
                '3|return await send_mail(to=mail["from"], text=greeting)',
            ],
        ),
        ("main.list_mails.1", ['8|for mail in await list_mails(folder="inbox"):']),
        (
            "main.for_mail[0]/main.log.2",
            [
                '8|for mail in await list_mails(folder="inbox"):',
                "11|except (ToolError, ValueError) as error:",
                "12|await log(",
                '13|text=f"{error}",',
                "14|)",
            ],
        ),
        (
            "main.for_mail[0]/main.delete.1",
            [
                '8|for mail in await list_mails(folder="inbox"):',
                "15|else:",
                '16|if mail["id"] == 1:',
                '17|elif mail["id"] == 2:',
                "17|await delete(mail_id=2)",
            ],
        ),
        (
            "main.for_mail[0]/main.keep.1",
            [
                '8|for mail in await list_mails(folder="inbox"):',
                "15|else:",
                '16|if mail["id"] == 1:',
                '17|elif mail["id"] == 2:',
                "18|else:",
                "18|await keep(mail_id=3)",
            ],
        ),
        (
            "main.for_mail[0]/main.close.1",
            [
                '8|for mail in await list_mails(folder="inbox"):',
                "19|finally:",
                '20|await close(mail_id=mail["id"])',
            ],
        ),
        (
            "main.while[#1]/main.wait.1",
            [
                "21|match kind:",
                '22|case "a" | "b" if (',
                '23|kind != "c"',
                "24|):",
                "25|while (await ask(kind=kind)) > 3:",
                "26|await wait(seconds=1)",
            ],
        ),
        (
            "main.for_each[0]/main.other.1",
            [
                "21|match kind:",
                "27|case _:",
                "28|await gather(*[other(n=n) for n in range(3) if n > 1])",
            ],
        ),
    ],
)
def test_a_call_of_a_python_plan_stands_below_the_conditions_around_it(key: str, lines: list[str]) -> None:
    assert shown(PYTHON, key) == lines


def test_each_call_of_the_program_has_a_place() -> None:
    plan = read_plan_text(PYTHON).result.require()
    assert plan.tree is not None
    for act in tree.acts(plan.tree):
        assert site(PYTHON, f"{act.id}.1", act.tool).lines[-1].text.strip()


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        ("A.1", ["9|?IF ($n == 1) {", "10|A: @FIRST ()"]),
        ("B.1", ["9|?IF ($n == 1) {", "11|ELSE IF ($n == 2) {", "12|B: @SECOND () ON_FAIL TOOL {"]),
        (
            "C.1",
            [
                "9|?IF ($n == 1) {",
                "11|ELSE IF ($n == 2) {",
                "12|ON_FAIL TOOL {",
                '13|C: @REPAIR (text="a {",',
                "14|more=2)",
            ],
        ),
        (
            "each[0]/call/send.1",
            [
                "9|?IF ($n == 1) {",
                "11|ELSE IF ($n == 2) {",
                "16|ELSE {",
                '17|each: ?FOREACH ($to IN ["ada"]) IN ORDER {',
                "18|call: CALL reply (to=$to)",
                '4|?IF ($to != "eve") {',
                "5|send: @SEND (to=$to)",
            ],
        ),
    ],
)
def test_a_call_of_ltp_text_stands_below_the_blocks_around_it(key: str, lines: list[str]) -> None:
    assert shown(LTP, key) == lines


def test_a_step_of_version_1_is_its_line_also_in_a_new_plan() -> None:
    text = 'S1: @READ ("a") > $y\nS2: ?IF ($y > 3) THEN @SEND (to=$y)\n'
    for key in ("S2.0.1", "r1/S2@3.0.2", "S2.0.1/t1c1"):
        assert shown(text, key) == ["2|S2: ?IF ($y > 3) THEN @SEND (to=$y)"]


def test_the_tool_is_named_as_the_plan_names_it() -> None:
    assert site(PYTHON, "main.list_mails.1", "LIST_MAILS").tool == "list_mails"
    assert site(LTP, "A.1", "FIRST").tool == "@FIRST"


def test_a_text_that_is_not_the_plan_shows_nothing() -> None:
    plan = read_plan_text(PYTHON).result.require()
    changed = PYTHON.replace("> 100", "> 1")
    assert call_site(changed, plan_hash(plan), "main.list_mails.1", "LIST_MAILS") is None
    assert call_site(PYTHON, plan_hash(plan), "main.no_such_step.1", "X") is None
    assert call_site(PYTHON, plan_hash(plan), "no key", "X") is None


def test_what_is_too_long_is_cut_and_says_so() -> None:
    many = "\n".join(f"        a{n}=1," for n in range(20))
    lines = shown_texts(f"async def main():\n    await f(\n{many}\n    )\n    return 1\n", "main.f.1")
    assert len(lines) == 9
    assert lines[-1].endswith("… (14 more lines)")
    (line,) = shown_texts(f"async def main():\n    await f(a={'x' * 900!r})\n    return 1\n", "main.f.1")
    assert len(line) == 201
    assert line.endswith("…")
    deep = "".join(f"{'    ' * n}if x > {n}:\n" for n in range(1, 19))
    lines = shown_texts(f"async def main(x: int):\n{deep}{'    ' * 19}await f()\n    return 1\n", "main.f.1")
    assert len(lines) == 16
    assert lines[0].strip() == "if x > 1:"
    assert lines[-1].strip() == "await f()"
    assert lines[1] == "… (4 more lines)"


def shown_texts(text: str, key: str) -> list[str]:
    return [line for _, line in site(text, key, "X").lines]


def test_no_text_or_comment_passes_for_a_condition() -> None:
    """What decides is shown whole, also where its values are written like the words around it."""
    text = """\
# ltp: 2
INPUT $n: str
?IF ($n == "a") {
  A: @FIRST ()
} ELSE IF ($n == "ELSE {") {
  B: @SECOND () ON_FAIL TOOL {
    # ON_FAIL TIMEOUT {
    C: @REPAIR ()
  }
}
@RESPOND ("done")
"""
    assert shown(text, "B.1")[1] == '5|ELSE IF ($n == "ELSE {") {'
    assert shown(text, "C.1")[2] == "6|ON_FAIL TOOL {"
    python = """\
async def main():
    try:
        await first()
    except ToolError as error:  # ada agreed: always
        await repair()
"""
    assert shown(python, "main.repair.1")[0] == "4|except ToolError as error:"
