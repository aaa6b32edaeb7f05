"""`callsheet lctl`: documents from files and stdin, findings with positions, exit status, JSON."""

from __future__ import annotations

import pytest

from callsheet.apps.cli.main import LCTL_COMMANDS
from callsheet.lctl import Fact, Work, begin, receive, write
from lctl_blocks import ack, branch, changed, failed, hop, joined, minimal, text


@pytest.fixture
def chain(machine):
    machine.write("one.yaml", text(hop(1)))
    machine.write("two.yaml", text(hop(2)))
    machine.write("ack.yaml", text(ack()))
    machine.write("failed.yaml", text(failed()))
    return machine


@pytest.mark.parametrize("name", LCTL_COMMANDS)
def test_every_command_has_help_that_agrees_with_list(machine, name):
    result = machine("lctl", name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: callsheet lctl {name}")


def test_valid_chain_is_ok(chain):
    result = chain("lctl", "check", "one.yaml", "two.yaml", "ack.yaml")
    assert result.exit_code == 0
    assert result.stdout == "one.yaml: ok\ntwo.yaml: ok\nack.yaml: ok\n"


def test_findings_have_position_caret_and_hint(chain):
    result = chain("lctl", "check", "-", stdin=text(changed(hop(1), "facts.F1.confidence", 1.5)))
    assert result.exit_code == 1
    assert "<stdin>:11:57: error V02: confidence is 1.5, not between 0.0 and 1.0" in result.stdout
    assert f"{' ' * 56}^^^\n  help: write a number from 0 to 1\n" in result.stdout


def test_id_cannot_forge_output_line(machine):
    forged = "F9\nerror X13: F1 rose\n\x85F2 0.99"
    block = changed(hop(1), "facts", {**hop(1)["facts"], forged: {"text": "x", "confidence": 0.2}})
    block = changed(block, "handoff.critical_facts", ["F1", forged])
    block["trace"][0]["facts_added"].append(forged)
    machine.write("one.yaml", text(block))
    machine.write("ack.yaml", text({**ack(), "lctl_ack": {**ack()["lctl_ack"], "facts_loaded": [forged]}}))
    for name in ("check", "show", "chain", "graph", "ack"):
        result = machine(
            "lctl", name, *(("one.yaml", "ack.yaml") if name in ("check", "chain") else ("one.yaml",))
        )
        for line in (result.stdout + result.stderr).splitlines():
            assert not line.startswith(("error X13", "F2 0.99")), (name, line)


def test_invalid_yaml_is_reported_at_its_position(machine):
    result = machine("lctl", "check", "-", stdin="lctl: '3.0'\nchain: {id: a\n")
    assert result.exit_code == 1
    assert "<stdin>:2:13: error P01" in result.stdout
    for name in ("show", "chain", "graph", "ack"):
        refused = machine("lctl", name, "-", stdin="lctl: '3.0'\nchain: {id: a\n")
        assert refused.exit_code == 2
        assert "error P01" in refused.stderr
        assert "^" in refused.stderr


def test_unreadable_file_and_wrong_command_line_exit_with_2(chain):
    assert chain("lctl", "check", "gone.yaml").exit_code == 2
    assert "CFG012" in chain("lctl", "check", "gone.yaml").stderr
    assert chain("lctl", "check", "-", "-", stdin="").exit_code == 2
    for wrong in ("2", "2=3", "9=1", "x=1", "2=2"):
        result = chain("lctl", "check", "--follows", wrong, "one.yaml", "two.yaml")
        assert result.exit_code == 2, wrong
        assert "CFG010" in result.stderr


def test_branches_are_joined_by_follows(machine):
    machine.write("web.yaml", text(branch("web", "F1")))
    machine.write("api.yaml", text(branch("api", "F2")))
    machine.write("all.yaml", text(joined()))
    line = ("lctl", "check", "--follows", "2=", "--follows", "3=1,2", "web.yaml", "api.yaml", "all.yaml")
    assert machine(*line).exit_code == 0
    machine.write("all.yaml", text(changed(joined(), "facts.F2", ...)))
    found = machine.json(*line)
    assert {row["rule"] for row in found["findings"] if row["level"] == "error"} == {"M03", "H01"}
    assert found["lost"] == [{"fact": "F2", "hop": 3}]
    assert [row["follows"] for row in found["documents"]] == [[], [], [1, 2]]


def test_check_as_json(chain):
    chain.write("two.yaml", text(changed(hop(2), "facts.F1.text", "Paid")))
    found = chain.json("lctl", "check", "one.yaml", "two.yaml")
    assert found["ok"] is True
    (row,) = (row for row in found["findings"] if row["rule"] == "X11")
    assert (row["source"], row["document"], row["level"], row["fact"]) == ("two.yaml", 2, "warn", "F1")
    assert row["path"] == ["facts", "F1", "text"]
    assert row["line"] > 0
    assert found["effective"] == {"F1": 0.96, "F2": 0.95, "F3": 0.96}


def test_show_separates_failed_step_from_likely_cause(chain):
    said = chain("lctl", "show", "failed.yaml").stdout
    assert "failed at step 3" in said
    assert "root cause: step 2, by analysis" in said
    found = chain.json("lctl", "show", "failed.yaml")
    assert found["failed_step"] == 3
    assert found["root_cause"]["step"] == 2
    assert chain.json("lctl", "show", "one.yaml")["document"]["chain"]["target"] == "checker"


def test_failed_step_is_that_of_the_error_where_the_chain_names_none(chain):
    document = chain.folder / "failed.yaml"
    document.write_text(text(changed(failed(), "chain.failed_at_step", ...)))
    assert "failed_at_step" not in document.read_text()
    assert chain.json("lctl", "show", "failed.yaml")["failed_step"] == 3
    assert "failed at step 3" in chain("lctl", "show", "failed.yaml").stdout
    nodes = chain.json("lctl", "graph", "failed.yaml")["nodes"]
    assert [node["step"] for node in nodes if node["failed"]] == [3]


def test_chain_and_graph_as_json(chain):
    assert [row["kind"] for row in chain.json("lctl", "chain", "one.yaml", "ack.yaml")["documents"]] == [
        "handoff",
        "ack",
    ]
    found = chain.json("lctl", "graph", "one.yaml", "two.yaml", "--format", "mermaid")
    assert found["graph"].startswith("graph TD\n")
    assert [node["agent"] for node in found["nodes"]] == ["reader", "checker", "payer"]
    assert found["edges"][0] == {"from": 0, "to": 1, "facts": {"F1": 0.96, "F2": 0.95}}


def test_ack_passes_check(chain):
    chain.write("made.yaml", chain("lctl", "ack", "two.yaml", "--after", "one.yaml").stdout)
    assert chain("lctl", "check", "two.yaml", "made.yaml").stdout.endswith("made.yaml: ok\n")
    assert chain.json("lctl", "ack", "two.yaml")["ack"]["lctl_ack"]["agent"] == "payer"
    assert chain("lctl", "ack", "two.yaml", "--agent", "reader").exit_code == 2
    assert chain("lctl", "ack", "ack.yaml").exit_code == 2


def test_ack_that_needs_person_exits_with_4(chain):
    weak = text(changed(minimal(), "facts.F1.confidence", 0.2))
    result = chain("lctl", "ack", "-", stdin=weak)
    assert result.exit_code == 4
    assert "confidence_concerns: [F1]" in result.stdout
    assert "a person has to decide" in result.stderr


def test_diff_prints_differences_and_honours_exit_code(chain):
    chain.write("other.yaml", text(changed(hop(2), "trace.1.action", "Compared with order 56")))
    result = chain("lctl", "diff", "--exit-code", "two.yaml", "other.yaml")
    assert result.exit_code == 1
    assert result.stdout.endswith("first divergence at step 2\n")
    assert chain("lctl", "diff", "--exit-code", "two.yaml", "two.yaml").exit_code == 0
    found = chain.json(
        "lctl", "diff", "two.yaml", "-", stdin=text(changed(hop(2), "facts.F1.confidence", 0.9))
    )
    assert found["facts_changed"] == {"F1": {"confidence": {"old": 0.96, "new": 0.9}}}
    assert chain("lctl", "diff", "two.yaml", "ack.yaml").exit_code == 2
    assert chain("lctl", "diff", "-", "-", stdin="").exit_code == 2


def test_rules_are_listed_and_explained(machine):
    lines = machine("lctl", "rules").stdout.splitlines()
    assert len(lines) == 99
    assert lines[0] == "P01  error  the block is not well-formed YAML"
    assert {row["level"] for row in machine.json("lctl", "rules", "--level", "warn")} == {"warn"}
    assert machine("explain", "x07").stdout.startswith("# X07: a critical fact is lost\n")
    assert machine.json("explain", "X07")["code"] == "X07"
    assert machine("explain", "X99").exit_code == 2


def test_control_characters_of_document_are_escaped(machine):
    hostile = changed(hop(1), "facts.F1.text", "\x1b[2Jgone\u202e")
    hostile = changed(hostile, "chain.target", "\x1b]0;x\x07y")
    machine.write("bad.yaml", text(changed(hostile, "trace.0.action", "a\x1b[1mb")))
    for name in ("check", "show", "chain", "graph", "ack"):
        result = machine("lctl", name, "bad.yaml")
        assert not {"\x1b", "\x07", "\u202e"} & set(result.stdout), name


@pytest.fixture
def parted(machine):
    """A document and two branches of it that use one id for different facts."""
    first = begin(
        "c", Work(agent="lead", to="crew", instruction="go", action="split", facts=[Fact("F1", "start", 0.9)])
    )
    machine.write("lead.yaml", write(first))
    for name, text_, value in (("web", "wants labels", 0.8), ("api", "gives data", 0.7)):
        fact = Fact("F2", text_, value)
        work = Work(
            agent=name, to="lead", instruction=f"{name} done", action="built", facts=[fact], parallel=True
        )
        machine.write(f"{name}.yaml", write(receive(first).hand_on(work)))
    return machine


def test_branches_with_conflicting_id_are_refused_unless_renamed(parted):
    branches = ("web.yaml", "api.yaml", "--parent", "lead.yaml", "--to", "ops")
    refused = parted("lctl", "merge", *branches)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "M01: branches give F2 2 different texts" in refused.stderr
    assert "--rename" in refused.stderr
    done = parted("lctl", "merge", *branches, "--rename", "-o", "all.yaml", "--action", "joined")
    assert done.exit_code == 0
    assert "api.yaml: renamed F2 to F3" in done.stderr
    assert parted("lctl", "check", "all.yaml").exit_code == 0
    merged = parted.json("lctl", "merge", *branches, "--rename")
    assert merged["handoff"]["critical_facts"] == ["F1", "F2", "F3"]
    assert merged["chain"] == {
        "id": "c", "step": 3, "source": "lead", "target": "ops", "parallel_merge": True,
    }  # fmt: skip


def test_merge_reports_conflicts_and_takes_lowest_confidence(parted):
    parted("lctl", "merge", "web.yaml", "api.yaml", "--parent", "lead.yaml", "--to", "ops", "--rename")
    lower = (
        (parted.folder / "web.yaml").read_text().replace("start, confidence: 0.9", "start, confidence: 0.5")
    )
    parted.write("low.yaml", lower)
    done = parted(
        "lctl", "merge", "low.yaml", "api.yaml", "--parent", "lead.yaml", "--to", "ops", "--rename",
        "--instruction", "ship it",
    )  # fmt: skip
    assert "warning: Branches give F1 0.5, 0.9; the lowest holds" in done.stderr
    assert "F1: {text: start, confidence: 0.5" in done.stdout
    assert done.stdout.rstrip().endswith("instruction: ship it")
    assert "missing option '--to'" in parted("lctl", "merge", "web.yaml", "api.yaml").stderr


def test_only_worst_of_many_findings_are_printed_with_count(machine):
    facts = "".join(f"  F{n}: {{text: a, confidence: 3}}\n" for n in range(1_000))
    block = f"lctl: '3.0'\nchain: {{id: c, step: 1, from: a, to: b}}\nfacts:\n{facts}instruction: go\n"
    result = machine("lctl", "check", machine.write("c.yaml", block))
    assert result.exit_code == 1
    assert result.stdout.count("error V02") == 100
    assert "… and 900 errors more; --json lists all" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 1_000
