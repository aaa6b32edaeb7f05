// The commands over a plan: run, dry run and test in a terminal, debug in the debugger.
"use strict";

const vscode = require("vscode");
const { commandLine, folderOf, runArguments } = require("./program");

// Executes a command line as a task, so that its arguments are quoted for the shell, and its output is seen.
async function execute(uri, name, args) {
  const document = await vscode.workspace.openTextDocument(uri);
  if (document.isDirty && !(await document.save())) return;
  const [command, ...rest] = commandLine(...args);
  const quoted = rest.map((value) => ({ value, quoting: vscode.ShellQuoting.Strong }));
  const shell = new vscode.ShellExecution({ value: command, quoting: vscode.ShellQuoting.Strong }, quoted, { cwd: folderOf(uri) });
  const scope = vscode.workspace.getWorkspaceFolder(uri) || vscode.TaskScope.Workspace;
  const task = new vscode.Task({ type: "callsheet" }, scope, name, "callsheet", shell);
  task.presentationOptions = { reveal: vscode.TaskRevealKind.Always, clear: true };
  await vscode.tasks.executeTask(task);
}

const uriOf = (given) => (given ? vscode.Uri.parse(String(given)) : vscode.window.activeTextEditor?.document.uri);

function command(name, act) {
  return vscode.commands.registerCommand(name, async (given) => {
    const uri = uriOf(given);
    if (uri) await act(uri);
    else vscode.window.showInformationMessage("callsheet: open a plan first");
  });
}

const register = () => [
  command("callsheet.runPlan", (uri) => execute(uri, "run", ["run", uri.fsPath, ...runArguments()])),
  command("callsheet.dryRunPlan", (uri) => execute(uri, "dry run", ["dry-run", uri.fsPath, ...runArguments()])),
  command("callsheet.testPlan", (uri) => execute(uri, "test", ["test", uri.fsPath.replace(/\.[^.]+$/, ".test.toml")])),
  command("callsheet.debugPlan", (uri) =>
    vscode.debug.startDebugging(vscode.workspace.getWorkspaceFolder(uri), {
      type: "callsheet",
      request: "launch",
      name: "Debug the plan",
      program: uri.fsPath,
      stopOnEntry: true,
    }),
  ),
];

module.exports = { register };
