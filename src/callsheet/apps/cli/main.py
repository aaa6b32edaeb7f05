"""The entry point of `callsheet`: the table of commands. Imports nothing but click."""

from __future__ import annotations

import click

from callsheet import __version__
from callsheet.apps.cli.group import CommandEntry, RootGroup

_PACKAGE = "callsheet.apps.cli"
_PLANS, _RUNS, _MORE = "Plans", "Runs", "More"

COMMANDS: dict[str, CommandEntry] = {
    "compile": CommandEntry(f"{_PACKAGE}.compile:compile_goal", "Make a plan for a goal.", _PLANS),
    "chat": CommandEntry(
        f"{_PACKAGE}.chat:chat", "Talk with a model that calls tools and makes plans.", _PLANS
    ),
    "check": CommandEntry(f"{_PACKAGE}.check:check", "Say what is wrong with plans.", _PLANS),
    "fmt": CommandEntry(f"{_PACKAGE}.fmt:fmt", "Write plans in their canonical form.", _PLANS),
    "graph": CommandEntry(f"{_PACKAGE}.graph:graph", "Draw a plan.", _PLANS),
    "explain-schedule": CommandEntry(
        f"{_PACKAGE}.explain_schedule:explain_schedule", "Say what each step of a plan waits for.", _PLANS
    ),
    "compare-react": CommandEntry(
        f"{_PACKAGE}.compare_react:compare_react", "Reach a goal as a plan and as a ReAct loop.", _PLANS
    ),
    "plan": CommandEntry(
        f"{_PACKAGE}.plan.group:plan", "Make, keep, run and compare plans: plan create.", _PLANS
    ),
    "save": CommandEntry(f"{_PACKAGE}.plan.manage:save", "Put a plan into the plan library.", _PLANS),
    "verify": CommandEntry(f"{_PACKAGE}.verify:verify", "Prove plans against a policy.", _PLANS),
    "explain-policy": CommandEntry(
        f"{_PACKAGE}.verify:explain_policy", "Say whose data each step takes and gives.", _PLANS
    ),
    "policy": CommandEntry(f"{_PACKAGE}.policy.group:policy", "Say what plans may do: policy init.", _PLANS),
    "run": CommandEntry(f"{_PACKAGE}.run:run", "Check a plan and run it on real tools.", _RUNS),
    "dry-run": CommandEntry(
        f"{_PACKAGE}.dry_run:dry_run", "Say what a plan would do, and do nothing.", _RUNS
    ),
    "resume": CommandEntry(f"{_PACKAGE}.resume:resume", "Carry on a run where its journal ends.", _RUNS),
    "decide": CommandEntry(f"{_PACKAGE}.decide:decide", "Decide about calls that gave no answer.", _RUNS),
    "cancel": CommandEntry(f"{_PACKAGE}.cancel:cancel", "End a run for good.", _RUNS),
    "inbox": CommandEntry(f"{_PACKAGE}.inbox:inbox", "List what runs wait for from people.", _RUNS),
    "approve": CommandEntry(
        f"{_PACKAGE}.approve:approve", "Answer what a run asks: yes, no, or a value.", _RUNS
    ),
    "runs": CommandEntry(f"{_PACKAGE}.runs:runs", "List the runs, the newest first.", _RUNS),
    "show": CommandEntry(f"{_PACKAGE}.show:show", "Tell what happened in a run.", _RUNS),
    "tail": CommandEntry(f"{_PACKAGE}.tail:tail", "Print the events of a run as they come.", _RUNS),
    "top": CommandEntry(f"{_PACKAGE}.top:top", "Watch a run while it goes.", _RUNS),
    "search": CommandEntry(f"{_PACKAGE}.search:search", "Find a text in what runs have handled.", _RUNS),
    "why": CommandEntry(f"{_PACKAGE}.inspection.why:why", "Say what a value of a run was made of.", _RUNS),
    "at": CommandEntry(
        f"{_PACKAGE}.inspection.at:at", "Show a run as it was after one of its events.", _RUNS
    ),
    "diff": CommandEntry(
        f"{_PACKAGE}.inspection.diff:diff_of_runs", "Say where two runs first part, and why.", _RUNS
    ),
    "blame": CommandEntry(
        f"{_PACKAGE}.inspection.blame:blame", "Say where a run failed, and what likely led to it.", _RUNS
    ),
    "debug": CommandEntry(
        f"{_PACKAGE}.debugger.command:debug", "Look at a run step by step, with keys.", _RUNS
    ),
    "trace": CommandEntry(
        f"{_PACKAGE}.trace.group:trace", "Give runs to tools that show traces: trace export.", _RUNS
    ),
    "playback": CommandEntry(
        f"{_PACKAGE}.time_travel.playback:playback", "Show a run as it went; nothing is run.", _RUNS
    ),
    "rerun": CommandEntry(
        f"{_PACKAGE}.time_travel.rerun:rerun", "Run a plan again from a step, as a new run.", _RUNS
    ),
    "fork": CommandEntry(
        f"{_PACKAGE}.time_travel.fork:fork", "Go on from an event in a new run, with something edited.", _RUNS
    ),
    "report": CommandEntry(f"{_PACKAGE}.report:report", "Write a run as one HTML file.", _RUNS),
    "serve": CommandEntry(f"{_PACKAGE}.serve:serve", "Serve the HTTP API and the web viewer.", _RUNS),
    "lctl": CommandEntry(
        f"{_PACKAGE}.lctl.group:lctl", "Check and draw what agents hand to one another.", _RUNS
    ),
    "worker": CommandEntry(
        f"{_PACKAGE}.engines.worker:worker", "Carry runs on for a Temporal server.", _RUNS
    ),
    "blobs": CommandEntry(
        f"{_PACKAGE}.engines.blobs:blobs", "Let go of large values of runs on Temporal: blobs prune.", _RUNS
    ),
    "labels": CommandEntry(
        f"{_PACKAGE}.labels.group:labels", "Say whose data runs have left in files and facts.", _MORE
    ),
    "tools": CommandEntry(f"{_PACKAGE}.tools:tools", "List the tools that a plan can call.", _MORE),
    "trust": CommandEntry(
        f"{_PACKAGE}.trust.group:trust", "Say which tools of MCP servers are trusted.", _MORE
    ),
    "login": CommandEntry(f"{_PACKAGE}.login:login", "Log in to an MCP server that asks for it.", _MORE),
    "logout": CommandEntry(f"{_PACKAGE}.login:logout", "Forget the login with an MCP server.", _MORE),
    "models": CommandEntry(
        f"{_PACKAGE}.models.group:models", "Fetch models that run on this machine.", _MORE
    ),
    "mcp": CommandEntry(f"{_PACKAGE}.mcp:mcp", "Serve callsheet to MCP clients: stdio or HTTP.", _MORE),
    "doctor": CommandEntry(f"{_PACKAGE}.doctor:doctor", "Look whether everything needed is in order.", _MORE),
    "demo": CommandEntry(f"{_PACKAGE}.demo:demo", "See it work on real MCP servers.", _MORE),
    "lsp": CommandEntry(f"{_PACKAGE}.lsp:lsp", "Answer an editor: plans as you write them.", _MORE),
    "explain": CommandEntry(f"{_PACKAGE}.explain:explain", "Explain a diagnostic code.", _MORE),
    "schema": CommandEntry(f"{_PACKAGE}.schema:schema", "Print the JSON Schema of JSON plans.", _MORE),
    "completion": CommandEntry(
        f"{_PACKAGE}.completion:completion", "Print the completion script of a shell.", _MORE
    ),
}


@click.group(
    "callsheet", cls=RootGroup, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="callsheet", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of a bug.")
def main(debug: bool) -> None:
    """Plans of tool calls: check them, run them, resume them after a crash, see what happened."""
    del debug  # the group looks for it on the command line, also where a command line cannot be read
