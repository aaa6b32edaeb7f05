// The runs of the journal in the side bar: reports, cancelling, recordings in the debugger, `resume` in a terminal.
"use strict";

const vscode = require("vscode");
const debug = require("./debug");
const { commandLine, folderOf, printed } = require("./program");

const MOST = 100;
const ICONS = {
  done: "pass",
  done_with_failures: "warning",
  failed: "error",
  refused: "circle-slash",
  cancelled: "circle-slash",
  waiting: "question",
  in_doubt: "question",
  interrupted: "debug-pause",
  running: "sync",
};

class Runs {
  changed = new vscode.EventEmitter();
  onDidChangeTreeData = this.changed.event;

  async getChildren(of) {
    if (of) return [];
    try {
      return JSON.parse(await printed("runs", "--limit", String(MOST), "--json"));
    } catch (error) {
      return [{ problem: error.message }];
    }
  }

  getTreeItem(run) {
    if (run.problem) return new vscode.TreeItem(run.problem.split("\n")[0]);
    const status = run.outcome || run.status;
    const item = new vscode.TreeItem((run.plan || run.run_id).split(/[\\/]/).pop());
    item.id = run.run_id;
    item.description = `${status.replaceAll("_", " ")} · ${run.run_id}`;
    item.iconPath = new vscode.ThemeIcon(ICONS[status] || "circle-outline");
    const failed = run.failed_step && `failed at ${run.failed_step}`;
    const waits = run.waits_for && `waits for ${run.waits_for}`;
    item.tooltip = [run.plan, run.goal, failed, waits, run.created].filter(Boolean).join("\n");
    item.contextValue = ["waiting", "in_doubt", "interrupted", "running"].includes(status) ? "open" : "ended";
    item.command = { command: "callsheet.showRun", title: "Show the report", arguments: [run] };
    return item;
  }
}

// The report of a run, as a page in a tab.
async function show(run) {
  const page = await printed("report", run.run_id, "--output", "-");
  const panel = vscode.window.createWebviewPanel("callsheet.run", run.run_id, vscode.ViewColumn.Active, { enableScripts: true });
  panel.webview.html = page;
}

function inTerminal(...args) {
  const [shellPath, ...shellArgs] = commandLine(...args);
  vscode.window.createTerminal({ name: `callsheet ${args[0]}`, shellPath, shellArgs, cwd: folderOf() }).show();
}

function register() {
  const runs = new Runs();
  const refresh = () => runs.changed.fire();
  const command = (name, act) =>
    vscode.commands.registerCommand(name, async (run) => {
      try {
        await act(run);
      } catch (error) {
        vscode.window.showErrorMessage(`callsheet: ${error.message}`);
      }
    });
  return [
    runs.changed,
    vscode.window.registerTreeDataProvider("callsheet.runs", runs),
    command("callsheet.refreshRuns", refresh),
    command("callsheet.showRun", show),
    command("callsheet.resumeRun", (run) => inTerminal("resume", run.run_id)),
    command("callsheet.stepThroughRun", (run) => debug.stepThrough(run.run_id)),
    command("callsheet.cancelRun", async (run) => {
      await printed("cancel", run.run_id);
      refresh();
    }),
    vscode.tasks.onDidEndTask(({ execution }) => execution.task.source === "callsheet" && refresh()),
    vscode.debug.onDidTerminateDebugSession(({ type }) => type === "callsheet" && refresh()),
  ];
}

module.exports = { register };
