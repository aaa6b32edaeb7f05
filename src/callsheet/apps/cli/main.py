"""The entry point of `callsheet`: the table of its commands. Imports nothing but click."""

from __future__ import annotations

import click

from callsheet import __version__
from callsheet.apps.cli.group import CommandEntry, RootGroup

_PACKAGE = "callsheet.apps.cli"
_PLANS, _RUNS, _MORE = "Plans", "Runs", "More"

COMMANDS: dict[str, CommandEntry] = {
    "compile": CommandEntry(f"{_PACKAGE}.compile:compile_goal", "Compile a goal into a plan.", _PLANS),
    "chat": CommandEntry(f"{_PACKAGE}.chat:chat", "Chat with a model that calls tools.", _PLANS),
    "check": CommandEntry(f"{_PACKAGE}.plan_texts:check", "Report errors in plans.", _PLANS),
    "fmt": CommandEntry(f"{_PACKAGE}.plan_texts:fmt", "Format plans.", _PLANS),
    "upgrade": CommandEntry(f"{_PACKAGE}.plan_texts:upgrade", "Rewrite plans in version 2.", _PLANS),
    "graph": CommandEntry(f"{_PACKAGE}.plan_texts:graph", "Draw a plan as a graph.", _PLANS),
    "explain-schedule": CommandEntry(
        f"{_PACKAGE}.plan_texts:explain_schedule", "Show what each step of a plan waits for.", _PLANS
    ),
    "compare-react": CommandEntry(
        f"{_PACKAGE}.compile:compare_react", "Compare a plan with a ReAct loop.", _PLANS
    ),
    "plan": CommandEntry(f"{_PACKAGE}.plan.group:plan", "Create, store, run and compare plans.", _PLANS),
    "save": CommandEntry(f"{_PACKAGE}.plan.library:save", "Save a plan in the plan library.", _PLANS),
    "verify": CommandEntry(f"{_PACKAGE}.verify:verify", "Verify plans against a policy.", _PLANS),
    "explain-policy": CommandEntry(
        f"{_PACKAGE}.verify:explain_policy", "Show the data labels of each step.", _PLANS
    ),
    "new": CommandEntry(f"{_PACKAGE}.new:new", "Begin a plan from a template, with tests.", _PLANS),
    "test": CommandEntry(f"{_PACKAGE}.cases:test", "Run the test cases of plans.", _PLANS),
    "record": CommandEntry(f"{_PACKAGE}.cases:record", "Make a test case of a run.", _PLANS),
    "distil": CommandEntry(
        f"{_PACKAGE}.distil:distil", "Make a plan from a session or an agent's run.", _PLANS
    ),
    "skill": CommandEntry(f"{_PACKAGE}.plan_texts:skill", "Make an Agent Skill of a plan.", _PLANS),
    "policy": CommandEntry(f"{_PACKAGE}.policy:policy", "Create, check and share policies.", _PLANS),
    "run": CommandEntry(f"{_PACKAGE}.run:run", "Check a plan and run it.", _RUNS),
    "dry-run": CommandEntry(f"{_PACKAGE}.dry_run:dry_run", "Show what a plan would do.", _RUNS),
    "resume": CommandEntry(f"{_PACKAGE}.resume:resume", "Continue an interrupted run.", _RUNS),
    "decide": CommandEntry(f"{_PACKAGE}.people:decide", "Resolve calls in doubt.", _RUNS),
    "cancel": CommandEntry(f"{_PACKAGE}.withdrawal:cancel", "Cancel a run.", _RUNS),
    "inbox": CommandEntry(f"{_PACKAGE}.people:inbox", "List pending questions and approvals.", _RUNS),
    "approve": CommandEntry(
        f"{_PACKAGE}.people:approve", "Approve, deny or answer a request of a run.", _RUNS
    ),
    "runs": CommandEntry(f"{_PACKAGE}.runs:runs", "List runs, newest first.", _RUNS),
    "show": CommandEntry(f"{_PACKAGE}.show:show", "Show what happened in a run.", _RUNS),
    "tail": CommandEntry(f"{_PACKAGE}.run_follower:tail", "Print the events of a run.", _RUNS),
    "top": CommandEntry(f"{_PACKAGE}.run_follower:top", "Watch a run live.", _RUNS),
    "search": CommandEntry(f"{_PACKAGE}.show:search", "Search the data of runs.", _RUNS),
    "why": CommandEntry(f"{_PACKAGE}.inspection:why", "Show where a value of a run came from.", _RUNS),
    "at": CommandEntry(f"{_PACKAGE}.inspection:at", "Show the state of a run after an event.", _RUNS),
    "diff": CommandEntry(f"{_PACKAGE}.inspection:diff_of_runs", "Compare two runs.", _RUNS),
    "blame": CommandEntry(
        f"{_PACKAGE}.inspection:blame", "Show where a run failed and the likely cause.", _RUNS
    ),
    "debug": CommandEntry(f"{_PACKAGE}.debugger:debug", "Step through a recorded run.", _RUNS),
    "trace": CommandEntry(f"{_PACKAGE}.export:trace", "Export runs to tracing tools.", _RUNS),
    "playback": CommandEntry(f"{_PACKAGE}.time_travel:playback", "Replay the recording of a run.", _RUNS),
    "rerun": CommandEntry(
        f"{_PACKAGE}.time_travel:rerun", "Run a plan again from a step, as a new run.", _RUNS
    ),
    "fork": CommandEntry(f"{_PACKAGE}.time_travel:fork", "Branch a new run off an event, with edits.", _RUNS),
    "undo": CommandEntry(f"{_PACKAGE}.withdrawal:undo", "Take back what a run did.", _RUNS),
    "report": CommandEntry(f"{_PACKAGE}.export:report", "Write a run as an HTML report.", _RUNS),
    "schedule": CommandEntry(f"{_PACKAGE}.servers:schedule", "Run plans by the clock.", _RUNS),
    "people": CommandEntry(f"{_PACKAGE}.accounts:people", "Manage who may use a server.", _MORE),
    "webhooks": CommandEntry(f"{_PACKAGE}.webhooks:webhooks", "Start plans from other services.", _RUNS),
    "serve": CommandEntry(f"{_PACKAGE}.servers:serve", "Serve the HTTP API and the web viewer.", _RUNS),
    "lctl": CommandEntry(
        f"{_PACKAGE}.lctl.group:lctl", "Write, check and compare hand-offs of agents.", _RUNS
    ),
    "worker": CommandEntry(f"{_PACKAGE}.engines.worker:worker", "Execute runs for a Temporal server.", _RUNS),
    "blobs": CommandEntry(
        f"{_PACKAGE}.engines.worker:blobs", "Delete unused large values of runs on Temporal.", _RUNS
    ),
    "labels": CommandEntry(f"{_PACKAGE}.labels:labels", "Manage the labels of files and facts.", _MORE),
    "tools": CommandEntry(f"{_PACKAGE}.tools:tools", "List the tools that a plan can call.", _MORE),
    "lock": CommandEntry(
        f"{_PACKAGE}.trust:lock", "Write the tools of MCP servers to callsheet.lock.", _MORE
    ),
    "call": CommandEntry(f"{_PACKAGE}.call:call", "Call one tool.", _RUNS),
    "stubs": CommandEntry(f"{_PACKAGE}.tools:stubs", "Write typed Python stubs of the tools.", _MORE),
    "trust": CommandEntry(f"{_PACKAGE}.trust:trust", "Manage trust in tools of MCP servers.", _MORE),
    "login": CommandEntry(f"{_PACKAGE}.login:login", "Log in to an MCP server.", _MORE),
    "logout": CommandEntry(f"{_PACKAGE}.login:logout", "Log out of an MCP server.", _MORE),
    "models": CommandEntry(f"{_PACKAGE}.models:models", "Manage models that run on this machine.", _MORE),
    "mcp": CommandEntry(f"{_PACKAGE}.servers:mcp", "Serve MCP clients over stdio or HTTP.", _MORE),
    "gate": CommandEntry(f"{_PACKAGE}.gate:gate", "Put callsheet between an agent and its servers.", _MORE),
    "doctor": CommandEntry(f"{_PACKAGE}.tools:doctor", "Check the installation.", _MORE),
    "demo": CommandEntry(f"{_PACKAGE}.demo:demo", "Run an example on real MCP servers.", _MORE),
    "lsp": CommandEntry(f"{_PACKAGE}.servers:lsp", "Start the language server for editors.", _MORE),
    "dap": CommandEntry(f"{_PACKAGE}.servers:dap", "Start the debugger for editors.", _MORE),
    "explain": CommandEntry(f"{_PACKAGE}.reference:explain", "Explain a diagnostic code.", _MORE),
    "schema": CommandEntry(f"{_PACKAGE}.reference:schema", "Print the JSON Schema of JSON plans.", _MORE),
    "completion": CommandEntry(f"{_PACKAGE}.reference:completion", "Print a shell completion script.", _MORE),
}


@click.group(
    "callsheet", cls=RootGroup, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="callsheet", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Print the tracebacks of internal errors and of tools.")
@click.pass_context
def main(context: click.Context, debug: bool) -> None:
    """Check, run, resume and inspect plans of tool calls."""
    if debug:  # of an internal error, the group prints it, which also works if parsing fails
        from callsheet.apps.cli.error_report import log_tools  # noqa: PLC0415 - only with the option

        context.call_on_close(log_tools())
