// The graph of the open plan beside its text, drawn by the language server after each change.
"use strict";

const vscode = require("vscode");

const PAUSE = 400; // milliseconds without a change before the graph is drawn again

// `draw` gives the graph of a plan by the URI of its document and a format; nothing for a text with errors.
function register(draw) {
  let panel;
  let shown; // the document that is drawn
  let timer;
  // a page is made once and then sent each change, so that its folds and zoom stay
  const refresh = async (isChange) => {
    if (!panel || !shown) return;
    const [drawn, hasPage] = [shown, isChange && Boolean(panel.webview.html)];
    const found = await draw(drawn.uri.toString(), hasPage ? "graph" : "html");
    if (!panel || drawn !== shown) return;
    panel.title = `Graph: ${shown.uri.path.split("/").pop()}${found ? "" : " (of the last valid text)"}`;
    if (!found) return;
    if (hasPage) await panel.webview.postMessage({ plan: found });
    else panel.webview.html = found;
  };
  const open = async (given) => {
    const uri = given && vscode.Uri.parse(String(given));
    const asked = uri ? await vscode.workspace.openTextDocument(uri) : vscode.window.activeTextEditor?.document;
    if (!asked) return;
    shown = asked;
    if (!panel) {
      const beside = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
      const options = { enableScripts: true, retainContextWhenHidden: true };
      panel = vscode.window.createWebviewPanel("callsheet.graph", "Graph", beside, options);
      panel.onDidDispose(() => (panel = undefined));
      panel.onDidChangeViewState(() => panel?.visible && refresh(true)); // a hidden page is sent nothing
      panel.webview.onDidReceiveMessage(({ at }) => reveal(shown, at));
    }
    await refresh(false);
  };
  return [
    vscode.commands.registerCommand("callsheet.showGraph", open),
    vscode.workspace.onDidChangeTextDocument(({ document }) => {
      if (document !== shown) return;
      clearTimeout(timer);
      timer = setTimeout(() => refresh(true), PAUSE);
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
