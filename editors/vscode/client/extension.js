// Starts `callsheet lsp` and lets it answer for plans and policies. All it knows of plans is in that program.
"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

const LANGUAGES = ["ltp", "callsheet-micro", "callsheet-dag", "callsheet-policy"];
const SELECTOR = [
  ...LANGUAGES.map((language) => ({ scheme: "file", language })),
  ...LANGUAGES.map((language) => ({ scheme: "untitled", language })),
  // of these the colours stay those of TOML and YAML
  { scheme: "file", pattern: "**/policy.toml" },
  { scheme: "file", pattern: "**/*.dag.{yaml,yml}" },
  // the server is silent about files that are no plans
  { scheme: "file", language: "python" },
];

/** @type {LanguageClient | undefined} */
let client;

function settings() {
  const given = vscode.workspace.getConfiguration("callsheet");
  const [command, ...before] = given.get("command", ["callsheet"]);
  return { command, args: [...before, "lsp", ...given.get("arguments", [])] };
}

async function start() {
  const { command, args } = settings();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const server = { command, args, transport: TransportKind.stdio, options: { cwd: folder } };
  client = new LanguageClient("callsheet", "callsheet", server, { documentSelector: SELECTOR });
  try {
    await client.start();
  } catch (error) {
    const line = [command, ...args].join(" ");
    vscode.window.showErrorMessage(
      `callsheet could not be started (${line}): ${error}. Install it with pip install 'callsheet[lsp]', or set callsheet.command.`,
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running?.isRunning()) await running.stop();
}

async function activate(context) {
  const again = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(
    vscode.commands.registerCommand("callsheet.restart", again),
    vscode.workspace.onDidChangeConfiguration((event) => (event.affectsConfiguration("callsheet") ? again() : undefined)),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
