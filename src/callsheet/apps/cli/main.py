"""The entry point of `callsheet`: the tables of its commands. Imports nothing but click."""

from __future__ import annotations

import click

from callsheet import __version__
from callsheet.apps.cli.group import CommandEntry, LazyCommands, RootGroup

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
    "plan": CommandEntry(f"{_PACKAGE}.main:plan", "Create, store, run and compare plans.", _PLANS),
    "save": CommandEntry(f"{_PACKAGE}.plan.library:save", "Save a plan in the plan library.", _PLANS),
    "verify": CommandEntry(f"{_PACKAGE}.proofs:verify", "Verify plans against a policy.", _PLANS),
    "explain-policy": CommandEntry(
        f"{_PACKAGE}.proofs:explain_policy", "Show the data labels of each step.", _PLANS
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
    "dry-run": CommandEntry(f"{_PACKAGE}.proofs:dry_run", "Show what a plan would do.", _RUNS),
    "resume": CommandEntry(f"{_PACKAGE}.resume:resume", "Continue an interrupted or paused run.", _RUNS),
    "decide": CommandEntry(f"{_PACKAGE}.people:decide", "Resolve calls in doubt.", _RUNS),
    "cancel": CommandEntry(f"{_PACKAGE}.withdrawal:cancel", "Cancel a run.", _RUNS),
    "pause": CommandEntry(f"{_PACKAGE}.withdrawal:pause", "Make no further call of a run for now.", _RUNS),
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
    "lctl": CommandEntry(f"{_PACKAGE}.main:lctl", "Write, check and compare hand-offs of agents.", _RUNS),
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


_PLAN_PACKAGE = "callsheet.apps.cli.plan"
_MAKE, _USE, _COMPARE = "Create and store", "Use", "Compare"

PLAN_COMMANDS: dict[str, CommandEntry] = {
    "create": CommandEntry(
        f"{_PLAN_PACKAGE}.library:create", "Compile a goal into a plan with a model.", _MAKE
    ),
    "save": CommandEntry(f"{_PLAN_PACKAGE}.library:save", "Save a plan in the library.", _MAKE),
    "export": CommandEntry(
        f"{_PLAN_PACKAGE}.library:export", "Export plans with all versions to a file.", _MAKE
    ),
    "import": CommandEntry(f"{_PLAN_PACKAGE}.library:import_", "Import plans from an exported file.", _MAKE),
    "rename": CommandEntry(f"{_PLAN_PACKAGE}.library:rename", "Rename a plan.", _MAKE),
    "delete": CommandEntry(f"{_PLAN_PACKAGE}.library:delete", "Delete plans from the library.", _MAKE),
    "list": CommandEntry(f"{_PLAN_PACKAGE}.library:list_plans", "List the plans of the library.", _USE),
    "show": CommandEntry(f"{_PLAN_PACKAGE}.library:show", "Draw a plan, or print its text.", _USE),
    "run": CommandEntry(f"{_PLAN_PACKAGE}.library:run", "Check a plan and run it.", _USE),
    "resume": CommandEntry(f"{_PLAN_PACKAGE}.library:resume", "Continue the newest run of a plan.", _USE),
    "diff": CommandEntry(f"{_PLAN_PACKAGE}.diff:diff", "Compare two plans.", _COMPARE),
    "review": CommandEntry(f"{_PLAN_PACKAGE}.diff:review", "Tell what a branch changes in plans.", _COMPARE),
}


@click.group("plan", cls=LazyCommands, entries=PLAN_COMMANDS, epilog=None)
def plan() -> None:
    """Create plans, store them in a library under short ids, run and compare them."""


_LCTL_PACKAGE = "callsheet.apps.cli.lctl"
_INSPECT, _ANSWER, _WRITE = "Inspect", "Answer and compare", "Write"

LCTL_COMMANDS: dict[str, CommandEntry] = {
    "check": CommandEntry(f"{_LCTL_PACKAGE}.reading:check", "Check the documents of a chain.", _INSPECT),
    "show": CommandEntry(f"{_LCTL_PACKAGE}.reading:show", "Show what a document hands on.", _INSPECT),
    "chain": CommandEntry(
        f"{_LCTL_PACKAGE}.reading:chain", "Show the facts of a chain hop by hop.", _INSPECT
    ),
    "graph": CommandEntry(f"{_LCTL_PACKAGE}.reading:graph", "Draw a chain as a flow chart.", _INSPECT),
    "emit": CommandEntry(
        f"{_LCTL_PACKAGE}.writing:emit", "Write a run of the journal as a document.", _WRITE
    ),
    "ack": CommandEntry(f"{_LCTL_PACKAGE}.reading:ack", "Write the acknowledgement of a hand-off.", _ANSWER),
    "merge": CommandEntry(f"{_LCTL_PACKAGE}.writing:merge", "Merge branches of a chain.", _ANSWER),
    "diff": CommandEntry(f"{_LCTL_PACKAGE}.reading:diff", "Compare two documents.", _ANSWER),
    "rules": CommandEntry(f"{_LCTL_PACKAGE}.reading:rules", "List the rules.", _ANSWER),
}


@click.group("lctl", cls=LazyCommands, entries=LCTL_COMMANDS, epilog=None)
def lctl() -> None:
    """Write, check, acknowledge, merge, draw and compare LCTL documents: hand-offs between agents."""
