// Starts `callsheet lsp`, `callsheet dap` and commands of plans. All it knows of plans is in that program.
"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");
const debug = require("./debug");
const plans = require("./plans");
const preview = require("./preview");
const { commandLine, folderOf, settings } = require("./program");
const runs = require("./runs");

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

async function start() {
  const [command, ...args] = commandLine("lsp", ...settings().get("arguments", []));
  const server = { command, args, transport: TransportKind.stdio, options: { cwd: folderOf() } };
  const options = { documentSelector: SELECTOR, initializationOptions: { lenses: true } };
  client = new LanguageClient("callsheet", "callsheet", server, options);
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(
      `callsheet could not be started (${[command, ...args].join(" ")}): ${error}. Install it with pip install 'callsheet[lsp]', or set callsheet.command.`,
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
    ...debug.register(),
    ...plans.register(),
    ...preview.register((...asked) => client?.sendRequest("workspace/executeCommand", { command: "callsheet.planGraph", arguments: asked })),
    ...runs.register(),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
