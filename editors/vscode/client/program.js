// The program `callsheet` as the settings name it: its command lines, and what it prints.
"use strict";

const { execFile } = require("node:child_process");
const vscode = require("vscode");

const settings = () => vscode.workspace.getConfiguration("callsheet");

// The folder in which commands about a file are executed: that of its workspace.
function folderOf(uri) {
  const of = uri && vscode.workspace.getWorkspaceFolder(uri);
  return (of || vscode.workspace.workspaceFolders?.[0])?.uri.fsPath;
}

const commandLine = (...args) => [...settings().get("command", ["callsheet"]), ...args];

// The options of runs, dry runs and the debugger: tools, policy and the like.
const runArguments = () => settings().get("runArguments", []);

// What a command prints; throws its message if it fails.
function printed(...args) {
  const [command, ...rest] = commandLine(...args);
  return new Promise((resolve, reject) =>
    execFile(command, rest, { cwd: folderOf(), maxBuffer: 64 * 1024 * 1024 }, (error, out, err) =>
      error ? reject(new Error(err.trim() || String(error))) : resolve(out),
    ),
  );
}

module.exports = { commandLine, folderOf, printed, runArguments, settings };
