"""Classes of tools: what a policy assumes of a tool that reads or sends, by patterns and declarations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet.api.policies import policies_beside
from callsheet.api.policy_entries import bind_policy, servers_of_pinned
from callsheet.api.proving import Assumptions, Proof, prove
from callsheet.diagnostics import CallsheetError, Source
from callsheet.frontends.ltp import parse
from callsheet.ir.labels import UNKNOWN
from callsheet.ir.operations import ToolClass
from callsheet.passes.verify import verify
from callsheet.policy.calls import Duty
from callsheet.policy.canon import differences, policy_from_json, policy_to_json
from callsheet.policy.model import Policy
from callsheet.policy.policy_file import read_policy
from callsheet.ports.calls import CallContext
from callsheet.ports.python_tools import tool
from callsheet.ports.python_tools.declare import tool_of
from callsheet.ports.tools import Registry, Tool, ToolSpec


@tool(effect="read")
def get_mail(query: str = "") -> str:
    return query


@tool(effect="read")
def get_page(url: str) -> str:
    return url


@tool(effect="pure")
def upper(text: str) -> str:
    return text


@tool(does="sends")
def send_mail(recipients: list[str], body: str, cc: str = "") -> str:
    return body


@tool(does="sends", to="whom")
def tell(whom: str, what: str) -> str:
    return what


@tool(does="pays")
def send_money(recipient: str, amount: float) -> str:
    return recipient


@tool(does="writes")
def create_note(filename: str, content: str) -> str:
    return filename


@tool
def delete_mail(mail_id: str) -> str:
    return mail_id


async def _nothing(args: dict[str, object], context: CallContext) -> None:
    return None


def there() -> Registry:
    registry = Registry()
    for function in (get_mail, get_page, upper, send_mail, tell, send_money, create_note, delete_mail):
        registry.add(tool_of(function))
    schema = {"type": "object", "properties": {"owner": {}, "title": {}}}
    for name in ("get_issue", "create_issue", "wipe"):
        spec = ToolSpec(name.upper(), name, origin="mcp:github", parameters=schema, pin=f"sha256:{name}")
        registry.add(Tool(spec, _nothing), alias=f"GITHUB__{name.upper()}")
    return registry


def ours(text: str = "", base: str = "workspace") -> Policy:
    return read_policy(
        Source("ours.toml", f'schema = 1\nextends = "{base}"\n{text}'), policies_beside(Path())
    )


def proved(plan: str, policy: Policy, *, approved: tuple[str, ...] = ()) -> Proof:
    read = parse(f"PLAN_START\n{plan}\nPLAN_END").require()
    return prove(read, policy, there(), Assumptions(approved=approved))


def said(plan: str, policy: Policy) -> tuple[str, ...]:
    """What is said of a plan: the codes of its refusals, and `ask` for each question."""
    proof = proved(plan, policy)
    asks = [f"ask {each.step}" for each in proof.obligations if each.kind is Duty.APPROVE]
    return (*(d.code for d in proof.diagnostics if d.is_error), *dict.fromkeys(asks))


READ = 'S1: @GET_MAIL (query="a") > $m\n'
CLASSES = """
[audience.trusted]
mail = ["*@corp.example"]
[class]
reads = ["get_*", "github__get_*"]
sends = ["send_*", "github__create_*"]
deletes = ["delete_*"]
"""


@pytest.mark.parametrize("base", ["strict", "workspace", "open"])
def test_shipped_policies_heed_declared_effects(base: str) -> None:
    policy = ours(base=base)
    assert said(f"{READ}S2: @UPPER ($m) > $u\nS3: @RESPOND ($u)", policy) == ()
    assert said('S1: @CREATE_NOTE ("a.md", "x")', policy) == ()
    unknown = said('S1: @DELETE_MAIL ("7")', policy)
    assert unknown == (("ask S1",) if base == "open" else ("POL101",))


def test_declared_effect_says_nothing_about_who_sees_the_arguments() -> None:
    plan = f"{READ}S2: @GET_MAIL (query=$m)"
    assert said(plan, ours()) == ("ask S2",)
    assert said(plan, ours(base="strict")) == ("POL103",)
    assert said(plan, ours('[class]\nreads = ["get_mail"]')) == ()


def test_reading_an_address_tells_its_host_whatever_the_policy_calls_it() -> None:
    plan = READ + 'S2: @GET_PAGE (url="https://c.example/?d=$m")'
    assert said(plan, ours('[class]\nreads = ["get_*"]')) == ("ask S2",)
    assert said(plan, ours('[class.reads]\ntools = ["get_*"]\napproval = "never"')) == ("POL103",)
    trusted = '[audience.trusted]\nhosts = ["c.example"]\n[class]\nreads = ["get_*"]'
    assert said(plan, ours(trusted)) == ()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('@SEND_MAIL (recipients="a@corp.example", body=$m)', ()),
        ('@SEND_MAIL (recipients="a@evil.example", body=$m)', ("ask S2",)),
        ('@SEND_MAIL (recipients="a@corp.example", body=$m, cc="b@evil.example")', ("ask S2",)),
        ('@SEND_MAIL (recipients=$m, body="x")', ("ask S2",)),
        ('@TELL (whom="ada", what=$m)', ("ask S2",)),
        ('@TELL (whom=$m, what="x")', ("ask S2",)),
        ('@SEND_MONEY (recipient="ada", amount=3)', ("ask S2",)),
        ('@CREATE_NOTE ($m, "x")', ("ask S2",)),
        ('@CREATE_NOTE ("a.md", $m)', ()),
        ('@CREATE_NOTE (".bashrc", $m)', ("POL107",)),
        ('@GET_ISSUE ($m, "x")', ()),
        ('@GITHUB__CREATE_ISSUE ($m, "x")', ("ask S2",)),
        ('@WIPE ("a", "b")', ("POL101",)),
    ],
)
def test_class_says_what_a_call_may_do(call: str, expected: tuple[str, ...]) -> None:
    assert said(f"{READ}S2: {call}", ours(CLASSES)) == expected


TO_NAMED = (
    CLASSES.replace('sends = ["send_*", "github__create_*"]\n', "")
    + '[class.sends]\ntools = ["send_*"]\nprivate_to_named = true\n'
)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('@SEND_MAIL (recipients="a@other.example", body=$m)', ()),
        ('@SEND_MAIL (recipients=["a@other.example", "b@c.example"], body=$m)', ()),
        ('@SEND_MAIL (recipients=$m, body="x")', ("ask S2",)),
        ('@SEND_MAIL (recipients="a@other.example", body="x", cc=$m)', ("ask S2",)),
        ('@SEND_MAIL (recipients=["a@other.example", $m], body="x")', ("ask S2",)),
        ('@SEND_MAIL (recipients="a@other.example, $m", body="x")', ("ask S2",)),
        ("@SEND_MAIL (body=$m)", ("ask S2",)),
    ],
)
def test_whom_the_plan_names_may_be_told_if_the_policy_says_so(call: str, expected: tuple[str, ...]) -> None:
    plan = f"{READ}S2: {call}"
    assert said(plan, ours(TO_NAMED)) == expected
    assert said(plan, ours(TO_NAMED).written_by(UNKNOWN)), "a planner that has read names nobody"


@pytest.mark.parametrize(
    "call",
    [
        '@SEND_MAIL (recipients="a@other.example", body=$m)',
        '@SEND_MAIL (recipients="a@other.example", body="x", cc=$m)',
        "@SEND_MAIL (body=$m)",
    ],
)
def test_secret_is_told_nobody_whom_the_plan_names(call: str) -> None:
    secret = '[tools.get_mail]\nreturns = "U/secret"\n'
    assert "POL103" in said(f"{READ}S2: {call}", ours(TO_NAMED + secret))


@pytest.mark.parametrize(
    "spelling", ["www.other.example", "https://www.other.example", "www.other.example/a?b"]
)
def test_a_web_address_is_no_recipient_in_any_spelling(spelling: str) -> None:
    tools = there()
    schema: dict[str, Any] = {"type": "object", "properties": {"url": {}, "content": {}}}
    tools.add(Tool(ToolSpec("SEND_PAGE", "send_page", parameters=schema, origin="python:web"), _nothing))
    plan = parse(f'PLAN_START\n{READ}S2: @SEND_PAGE (url="{spelling}", content=$m)\nPLAN_END').require()
    assert not prove(plan, ours(TO_NAMED), tools, Assumptions(can_ask=False)).ok
    trusted = TO_NAMED.replace("[audience.trusted]\n", '[audience.trusted]\nhosts = ["www.other.example"]\n')
    assert prove(plan, ours(trusted), tools, Assumptions(can_ask=False)).ok
    for evil in ("@evil.example", ".evil.example", "\\\\@evil.example", " evil.example", ",evil.example"):
        text = f'PLAN_START\n{READ}S2: @SEND_PAGE (url="{spelling}{evil}", content=$m)\nPLAN_END'
        if "?" not in spelling:
            assert not prove(parse(text).require(), ours(trusted), tools, Assumptions(can_ask=False)).ok, evil


def test_single_tools_add_to_what_their_class_says() -> None:
    plan = f'{READ}S2: @SEND_MAIL (recipients="a@other.example", body=$m)'
    assert said(plan, ours(CLASSES)) == ("ask S2",)
    friends = '[tools."@SEND_MAIL"]\ntrusted_audience = ["*@other.example"]\n'
    assert said(plan, ours(CLASSES + friends)) == ()
    entry = bind_policy(ours(CLASSES + friends), there())[0].tools["SEND_MAIL"]
    assert entry.audience_arg == "recipients"
    assert entry.does is ToolClass.SENDS


def test_tool_without_class_or_pattern_stands_alone() -> None:
    alone = bind_policy(ours('[tools."@GET_MAIL"]\negress = false\n'), there())[0].tools["GET_MAIL"]
    assert (alone.destructive, alone.does) == (True, None), "what is left out is the worst"


def test_exact_name_wins_then_the_longest_pattern_then_the_strictest() -> None:
    text = CLASSES + '[tools."github__*"]\nclass = "administers"\n[tools."@SEND_MONEY"]\nclass = "sends"\n'
    tools = bind_policy(ours(text), there())[0].tools
    assert tools["GET_ISSUE"].does is ToolClass.READS
    assert tools["WIPE"].does is ToolClass.ADMINISTERS
    alike = ours('[class]\nreads = ["github__get_*"]\ndeletes = ["*hub__get_issue*"]\n')
    assert bind_policy(alike, there())[0].tools["GET_ISSUE"].does is ToolClass.DELETES, "as long, stricter"
    assert tools["SEND_MONEY"].does is ToolClass.SENDS, "its very name"
    assert bind_policy(ours(CLASSES), there())[0].tools["SEND_MONEY"].does is ToolClass.PAYS, (
        "it says so itself"
    )
    assert tools["GITHUB__WIPE"].destructive


def test_other_pin_drops_what_follows_from_the_class() -> None:
    text = '[class]\nreads = ["github__get_*"]\n[tools."mcp:github/get_issue"]\npin = "sha256:other"\n'
    policy, found = bind_policy(ours(text), there())
    assert [d.code for d in found] == ["POL007"]
    assert "GET_ISSUE" not in policy.tools
    assert "GITHUB__GET_ISSUE" not in policy.tools


def test_pinned_entry_of_a_class_counts_where_its_server_was_not_asked() -> None:
    text = """
[tools."mcp:fs/peek"]
class = "reads"
pin = "sha256:1"
[tools."mcp:fs/move"]
class = "writes"
"""
    plan = parse('PLAN_START\nS1: @FS__PEEK ("a") > $a\nS2: @RESPOND ($a)\nPLAN_END').require()
    assert servers_of_pinned(ours(text), ["FS__PEEK"]) == "the server fs, of which the policy has a pin,"
    assert prove(plan, ours(text), Registry()).ok
    assert servers_of_pinned(ours(text), ["FS__MOVE"]) is None, "what nobody pinned may be anything"


def test_no_pattern_describes_a_built_in_tool() -> None:
    policy = ours('[class]\nreads = ["*"]\n')
    assert said('S1: @READ_FILE ("a.md") > $a\nS2: @WEB_SEARCH ($a)', policy) == ("POL103",)
    with pytest.raises(CallsheetError, match="POL003: @READ_FILE is a built-in tool"):
        ours('[tools."@READ_FILE"]\nclass = "reads"\n')


def test_without_declarations_the_worst_is_assumed_of_the_arguments() -> None:
    plan = parse(f'PLAN_START\n{READ}S2: @GET_MAIL (query=$m)\nS3: @DELETE_MAIL ("7")\nPLAN_END').require()
    kinds = [(each.step, str(each.rule)) for each in verify(plan, ours(CLASSES)).violations]
    assert kinds == [("S2", "consequential"), ("S3", "consequential")], "asks, and nobody can be asked"


def test_bound_policy_is_the_same_after_the_journal() -> None:
    text = CLASSES + '[class.pays]\napproval = "if-untrusted-or-outside"\nreturns = "T/pub"\n'
    bound, _ = bind_policy(ours(text), there())
    assert policy_from_json(policy_to_json(bound)) == bound
    assert not differences(bound, policy_from_json(policy_to_json(bound)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[class]\nreeds = ["a"]', "there is no class 'reeds'"),
        ("[class]\nreads = 3", "class.reads must be a list of tools, or a table"),
        (
            '[class]\nreads = ["a"]\n[class.reads]\nno_echo = true',
            "Cannot declare ('class', 'reads') twice",
        ),
        ('[class]\nreads = ["a b"]', "class.reads.tools must be a name of tools"),
        ('[tools."get_*"]\npin = "sha256:1"', "a pin is the hash of one tool's declaration"),
        ('[tools."get_*"]\nclass = "reading"', 'tools."get_*".class must be one of computes'),
        ('[class.reads]\npin = "x"', "a policy has no key class.reads.pin"),
    ],
)
def test_wrong_class_is_an_error_with_its_place(text: str, message: str) -> None:
    with pytest.raises(CallsheetError) as caught:
        ours(text)
    assert message in str(caught.value)
    assert all(d.span is not None for d in caught.value.diagnostics)


@pytest.mark.parametrize(
    "text",
    [
        '[class]\nreads = ["get_mial", "away__get_mail"]',
        '[defaults]\ndeny = ["@GET_MIAL", "@HOST_EXEC"]',
        '[defaults]\nallow = ["get_mial"]',
        '[sources]\n"tool:@GET_MIAL" = { conf = "secret" }',
        '[[limit]]\ntools = ["get_mial", "get_*"]\ncalls = 1',
        '[dynamic]\nagent = { tools = ["@GET_MIAL"] }',
    ],
)
def test_misspelt_tool_is_a_warning_wherever_the_policy_names_it(text: str) -> None:
    _, found = bind_policy(ours(text), there())
    assert [(d.code, d.is_error) for d in found] == [("POL008", False)]
    assert "@GET_MAIL" in (found[0].help or "")


def test_misspelt_argument_is_a_warning_unless_the_entry_names_the_right_one_too() -> None:
    entry = '[tools.send_mail]\nclass = "sends"\n{} = {}\n'
    for key, value in (("audience_arg", '"recipient"'), ("control", '["recipient", "CC"]')):
        _, found = bind_policy(ours(entry.format(key, value)), there())
        assert [(d.code, d.is_error, d.help) for d in found] == [
            ("POL013", False, "did you mean recipients?")
        ], key
    for value in ('["recipient", "recipients"]', '["*"]', '["bcc", "cc"]'):
        assert bind_policy(ours(entry.format("control", value)), there())[1] == (), value


def test_declaration_that_contradicts_itself_is_refused() -> None:
    @tool(effect="idempotent", does="reads")
    def look(a: str) -> str:
        return a

    @tool(does="sends", to="nobody")
    def shout(a: str) -> str:
        return a

    for function in (look, shout):
        with pytest.raises(CallsheetError, match="CFG105"):
            tool_of(function)
