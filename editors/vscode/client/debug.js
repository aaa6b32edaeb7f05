// The debugger: `callsheet dap` as the adapter, and the questions of a run that is debugged.
"use strict";

const vscode = require("vscode");
const { commandLine, folderOf, runArguments } = require("./program");

const TYPE = "callsheet";
const APPROVE = "Approve";
const DENY = "Deny";

const configurations = {
  // Fills in what a launch configuration leaves out; without one, the open plan is debugged.
  resolveDebugConfiguration(folder, given) {
    const cwd = folder?.uri.fsPath || folderOf();
    if (given.resume || given.recorded) return { cwd, ...given };
    const program = given.program || vscode.window.activeTextEditor?.document.uri.fsPath;
    if (!program) {
      vscode.window.showInformationMessage("callsheet: open a plan first");
      return undefined;
    }
    const named = given.type ? given : { type: TYPE, request: "launch", name: "Debug the plan", stopOnEntry: true };
    return { cwd, args: runArguments(), ...named, program };
  },
};

const adapters = {
  createDebugAdapterDescriptor(session) {
    const [command, ...args] = commandLine("dap");
    return new vscode.DebugAdapterExecutable(command, args, { cwd: session.configuration.cwd });
  },
};

// Asks a question of the run. To close it leaves it open: it can be answered in the debug console.
async function ask(session, { key, kind, headline, details, options }) {
  let line;
  if (kind === "approval") {
    const picked = await vscode.window.showWarningMessage(headline, { modal: true, detail: details }, APPROVE, DENY);
    line = picked && (picked === APPROVE ? ":approve" : ":deny");
  } else {
    const text = options.length
      ? await vscode.window.showQuickPick(options, { title: headline, ignoreFocusOut: true })
      : await vscode.window.showInputBox({ title: headline, ignoreFocusOut: true });
    line = text === undefined ? undefined : `:answer ${text}`;
  }
  if (line) await session.customRequest("callsheet/answer", { key, line });
}

function register() {
  return [
    vscode.debug.registerDebugConfigurationProvider(TYPE, configurations),
    vscode.debug.registerDebugAdapterDescriptorFactory(TYPE, adapters),
    vscode.debug.onDidReceiveDebugSessionCustomEvent(({ session, event, body }) => {
      if (session.type !== TYPE || event !== "callsheet/asked") return;
      ask(session, body).catch((error) => vscode.window.showErrorMessage(`callsheet: ${error.message}`));
    }),
  ];
}

// Steps through the recording of a run.
const stepThrough = (recorded) =>
  vscode.debug.startDebugging(vscode.workspace.workspaceFolders?.[0], {
    type: TYPE,
    request: "launch",
    name: `The recording of ${recorded}`,
    recorded,
    stopOnEntry: true,
  });

module.exports = { register, stepThrough };
