"""The threats of `docs/security.md` and the tests of each defence, which exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
TESTS: dict[str, tuple[str, ...]] = {
    "YAML alias bomb": (
        "tests/security/test_yaml.py::test_alias_bomb_is_refused_at_once",
        "tests/security/test_yaml.py::test_aliases_are_refused_at_any_size",
        "tests/trace/lctl/test_reading.py::test_bombs_are_refused_before_expansion",
        "tests/trace/lctl/test_reading.py::test_alias_targets_are_counted_before_use",
    ),
    "YAML surprises": (
        "tests/security/test_yaml.py::test_implicit_types_stay_text",
        "tests/security/test_yaml.py::test_tags_create_no_objects",
    ),
    "JSON bombs": (
        "tests/security/test_json_bombs.py",
        "tests/apps/test_upkeep.py::test_missing_changed_or_moved_lines_are_found",
        "tests/apps/mcp/test_transports.py::test_ambiguous_json_is_refused_over_http_as_on_standard_input",
        "tests/policy/test_predicates.py::test_rule_asks_or_refuses_by_call_arguments",
    ),
    "data in prompts that acts as an instruction": (
        "tests/ports/models/test_data_marks.py",
        "tests/security/test_hidden_declarations.py",
        "tests/security/test_planner_labels.py",
    ),
    "LCTL documents that mislead": (
        "tests/trace/lctl/test_ids.py",
        "tests/trace/lctl/test_reading.py",
        "tests/apps/test_lctl.py::test_id_cannot_forge_output_line",
    ),
    "parser blow-up": ("tests/security/test_parser_cost.py",),
    "ReDoS in forbidden patterns": (
        "tests/security/test_patterns.py",
        "tests/policy/test_globs.py",
    ),
    "path traversal in ids, names and artefacts": (
        "tests/security/test_paths.py",
        "tests/store/test_ids.py",
        "tests/security/test_http_names.py",
        "tests/ports/test_builtin_files.py::test_symlink_is_never_followed",
    ),
    "template injection by tool output": (
        "tests/security/test_answers_are_data.py",
        "tests/compat/test_data_is_data.py",
        "tests/viewer/test_page.py::test_tool_text_is_never_markup",
        "tests/apps/test_interruptions.py::test_escapes_are_removed_on_terminal_and_kept_in_pipe",
        "tests/security/test_terminals.py",
    ),
    "an answer that sends data out as it is shown, or an error that quotes it": (
        "tests/security/test_rendered_answers.py",
        "tests/viewer/test_rendered_answers.py",
        "tests/machine/monitor/test_sanitizing.py",
        "tests/policy/test_disarming.py",
        "tests/security/test_answer_sanitizing.py",
        "tests/security/test_message_sanitizing.py",
        "tests/security/test_attachments.py",
    ),
    "secrets in logs and traces": (
        "tests/security/test_canary.py",
        "tests/sealing/test_sealing.py",
        "tests/runtime/test_sealed_runs.py",
        "tests/store/test_recorded_decisions.py",
        "tests/api/test_repr.py",
        "tests/security/test_secrets.py",
        "tests/security/test_servers_at_urls.py::test_token_is_in_no_journal_and_no_error",
        "tests/security/test_pins.py::test_pin_file_contains_no_secret_of_configuration",
        "tests/ports/models/test_endpoint.py::test_key_is_sent_and_never_shown",
        "tests/security/test_traces.py",
    ),
    "API without authentication": (
        "tests/security/test_http_access.py",
        "tests/security/test_http_names.py",
        "tests/apps/http/test_guard.py::test_oversized_head_is_refused",
    ),
    "DNS rebinding, Origin": (
        "tests/security/test_http_sites.py",
        "tests/viewer/test_foreign_pages.py",
    ),
    "CSRF on the local interface": (
        "tests/security/test_http_sites.py::test_cross_site_form_starts_nothing_even_in_old_browser",
        "tests/security/test_http_sites.py::test_cookie_authenticated_change_needs_custom_header",
        "tests/viewer/test_foreign_pages.py",
    ),
    "MCP tool poisoning, rug pull": (
        "tests/security/test_pins.py",
        "tests/security/test_changes_during_runs.py",
        "tests/security/test_servers_between_runs.py",
        "tests/runtime/engines/temporal/test_rules.py::test_tool_moved_to_another_server_is_not_called",
        "tests/security/test_hidden_declarations.py",
        "tests/security/test_tool_names.py",
    ),
    "a plan that changes the configuration of the next run": (
        "tests/security/test_configuration_files.py",
        "tests/apps/test_policies.py::test_plans_cannot_write_files_that_configure_later_runs",
    ),
    "confused deputy, token passthrough, SSRF in OAuth, session theft": (
        "tests/security/test_servers_at_urls.py",
        "tests/security/test_logins.py",
    ),
    "SSRF in `@FETCH_PAGE`": (
        "tests/security/test_private_addresses.py",
        "tests/ports/test_builtin_fetch.py::test_no_spelling_of_private_address_is_fetched",
        "tests/security/test_agents.py::test_redirects_of_agent_call_are_checked_against_token",
        "tests/security/test_agents.py::test_redirects_of_step_are_checked_against_policy",
    ),
    "SSRF by tools of servers": ("tests/security/test_tool_addresses.py",),
    "unbounded loops, output, fan-out": (
        "tests/security/test_runaway.py",
        "tests/security/test_changes_during_runs.py::test_huge_answer_ends_run_at_limit_with_intact_journal",
        "tests/runtime/test_budgets.py",
        "tests/machine/test_snapshots.py::test_restored_run_continues_like_full_replay",
        "tests/crash/test_odd_answers.py::test_oversized_answer_is_skipped_and_its_call_fails",
    ),
    "a client of `callsheet mcp`, or the model behind it, that wants more than the operator allows": (
        "tests/apps/mcp/test_running.py",
        "tests/apps/mcp/test_branching.py",
        "tests/apps/mcp/test_transports.py",
    ),
    "journal tampering": (
        "tests/security/test_tampering.py",
        "tests/store/test_verifying.py",
        "tests/apps/test_upkeep.py::test_rewritten_chain_contradicts_recorded_head",
        "tests/security/test_forged_exports.py",
    ),
    "durability under crash": (
        "tests/crash/test_sweeps.py",
        "tests/security/test_paths.py::test_atomic_replacement_is_durable",
        "tests/store/test_seal_keys.py::test_key_is_durable_before_use",
        "tests/crash/test_faults.py",
        "tests/crash/test_owners.py",
        "tests/store/test_full_disks.py",
        "tests/runtime/test_runs.py::test_clock_jump_extends_no_wait_and_reorders_no_event",
        "tests/store/test_crashes.py",
        "tests/runtime/test_asking.py::test_crash_at_any_write_loses_no_answer_and_uses_none_twice",
        "tests/security/test_enforcement.py::test_run_continues_under_original_policy",
    ),
}


def test_every_threat_has_row() -> None:
    table = PAGE.partition("\n## Threats and tests\n")[2].partition("\n## ")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    rows = {name.strip(): done.strip() for name, done in cells[1:]}
    assert set(rows) == set(TESTS)
    assert all(rows.values())


@pytest.mark.parametrize("test", sorted({test for tests in TESTS.values() for test in tests}))
def test_named_tests_exist(test: str) -> None:
    file, _, function = test.partition("::")
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert [name for name in functions if name == function or (not function and name.startswith("test_"))]


def test_ports_are_opened_only_in_known_modules() -> None:
    opens = re.compile(
        r"\b(?:start_server|start_unix_server|create_server|HTTPServer|uvicorn|\.listen\(\d|\.bind\(\()"
    )
    package = ROOT / "src" / "callsheet"
    pure = package / "policy"  # it names programs that open ports; what it imports is checked elsewhere
    files = sorted(file for file in package.rglob("*.py") if pure not in file.parents)
    assert [str(f.relative_to(package)) for f in files if opens.search(f.read_text("utf-8"))] == [
        "apps/cli/servers.py",
        "apps/head_timeout.py",
        "apps/http/serving.py",
        "apps/lsp/server.py",
        "apps/mcp/transports.py",
        "ports/mcp/oauth/authorize.py",
        "testing/mcp_server.py",
    ]


def test_other_paths_named_by_page_exist() -> None:
    rest = PAGE.partition("\n## Threats and tests\n")[2]
    assert [name for name in re.findall(r"`(tests/[\w/.]+)", rest) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", ["docs/policy.md", "docs/trust.md", "README.md"])
def test_page_is_linked_from_overviews(page: str) -> None:
    assert "security.md)" in (ROOT / page).read_text("utf-8")
