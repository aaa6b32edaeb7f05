// Bundles the extension into dist/: without what `callsheet lsp` does not offer, with the licences of what is in it.
"use strict";

const fs = require("node:fs");
const path = require("node:path");

// The modules of vscode-languageclient that are left out, with what a server that needs them would offer.
// `callsheet lsp` offers none of it; tests/apps/lsp/test_requests.py compares.
const LEFT_OUT = {
  callHierarchy: "callHierarchyProvider",
  colorProvider: "colorProvider",
  declaration: "declarationProvider",
  diagnostic: "diagnosticProvider",
  documentLink: "documentLinkProvider",
  fileOperations: "workspace.fileOperations",
  implementation: "implementationProvider",
  inlineCompletion: "inlineCompletionProvider",
  inlineValue: "inlineValueProvider",
  linkedEditingRange: "linkedEditingRangeProvider",
  notebook: "notebookDocumentSync",
  selectionRange: "selectionRangeProvider",
  signatureHelp: "signatureHelpProvider",
  typeDefinition: "typeDefinitionProvider",
  typeHierarchy: "typeHierarchyProvider",
  workspaceSymbol: "workspaceSymbolProvider",
};

// A feature that tells the server nothing, and registers nothing.
const ABSENT = `
class Absent {
  fillClientCapabilities() {}
  initialize() {}
  clear() {}
  getState() { return { kind: "static" }; }
}
module.exports = new Proxy({}, { get: () => Absent });
`;

// The client asks for VS Code 1.82; VS Code itself has compared `engines` of package.json, which asks for more.
const TRUE = "module.exports = () => true;";

const withoutUnused = {
  name: "without-unused",
  setup(bundler) {
    const replaced = (filter, contents) => bundler.onLoad({ filter }, () => ({ contents, loader: "js" }));
    replaced(new RegExp(`vscode-languageclient/lib/common/(${Object.keys(LEFT_OUT).join("|")})\\.js$`), ABSENT);
    replaced(/semver\/functions\/(parse|satisfies)\.js$/, TRUE);
  },
};

// The licence of each library of which a file is in the bundle.
function licences(inputs) {
  const folders = new Set(inputs.flatMap((input) => input.match(/^.*node_modules\/(@[^/]+\/)?[^/]+/)?.slice(0, 1) || []));
  const of = (folder) => {
    const { name, version, license } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
    const file = fs.readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    return `${name} ${version} (${license})\n\n${fs.readFileSync(path.join(folder, file), "utf8").trim()}\n`;
  };
  return [...folders].sort().map(of).join(`\n${"-".repeat(80)}\n\n`);
}

async function bundle() {
  const { metafile } = await require("esbuild").build({
    entryPoints: ["client/extension.js"],
    outfile: "dist/extension.js",
    bundle: true,
    minify: true,
    metafile: true,
    platform: "node",
    target: "node20",
    format: "cjs",
    external: ["vscode"],
    plugins: [withoutUnused],
  });
  const [{ inputs }] = Object.values(metafile.outputs);
  fs.writeFileSync("dist/LICENSES.txt", licences(Object.keys(inputs)));
}

if (require.main === module) {
  bundle().catch((error) => {
    console.error(String(error));
    process.exitCode = 1;
  });
}

module.exports = { LEFT_OUT };
