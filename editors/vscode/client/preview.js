// The graph of the open plan beside its text, drawn by the language server after each change.
"use strict";

const vscode = require("vscode");

const PAUSE = 400; // milliseconds without a change before the graph is drawn again

// `draw` gives the page of a plan by the URI of its document, "" for a text with errors.
function register(draw) {
  let panel;
  let shown; // the document that is drawn
  let timer;
  const refresh = async () => {
    if (!panel || !shown) return;
    const page = await draw(shown.uri.toString());
    if (!panel) return;
    panel.title = `Graph: ${shown.uri.path.split("/").pop()}${page ? "" : " (of the last valid text)"}`;
    if (page) panel.webview.html = page;
  };
  const open = async (given) => {
    const uri = given && vscode.Uri.parse(String(given));
    shown = uri ? await vscode.workspace.openTextDocument(uri) : vscode.window.activeTextEditor?.document;
    if (!shown) return;
    if (!panel) {
      const beside = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
      panel = vscode.window.createWebviewPanel("callsheet.graph", "Graph", beside, { enableScripts: true });
      panel.onDidDispose(() => (panel = undefined));
      panel.webview.onDidReceiveMessage(({ at }) => reveal(shown, at));
    }
    await refresh();
  };
  return [
    vscode.commands.registerCommand("callsheet.showGraph", open),
    vscode.workspace.onDidChangeTextDocument(({ document }) => {
      if (document !== shown) return;
      clearTimeout(timer);
      timer = setTimeout(refresh, PAUSE);
    }),
    { dispose: () => clearTimeout(timer) },
  ];
}

// Moves the cursor to an offset in characters, which an editor counts as UTF-16 units.
async function reveal(document, at) {
  const units = [...document.getText()].slice(0, at).join("").length;
  const place = document.positionAt(units);
  const options = { viewColumn: vscode.ViewColumn.One, selection: new vscode.Range(place, place) };
  await vscode.window.showTextDocument(document, options);
}

module.exports = { register };
