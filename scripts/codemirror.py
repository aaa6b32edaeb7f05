"""Bundles CodeMirror for the editor of the web viewer: `python3 scripts/codemirror.py`, with Node and npm.

In: the versions in `codemirror/package-lock.json`. Out: one module in `apps/web/vendor`, with its licence and
a list of what it was made of. With `--check` nothing is written: it fails if the result would differ. To
renew it, change `codemirror/package.json` and run this with `--renew`, which also writes the lock file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent / "codemirror"
OUT = HERE.parent.parent / "src" / "callsheet" / "apps" / "web" / "vendor"
LOCK = "package-lock.json"
MOST = 400_000
"""The most bytes that the bundle may have."""
_BANNER = "/* CodeMirror and what it needs, MIT licence: LICENSES.txt. Made by scripts/codemirror.py. */"


def bundled(*, renews: bool) -> dict[str, bytes]:
    """The files of the bundle, by name. Raises CalledProcessError if npm or esbuild fail."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in (HERE / "package.json", HERE / "entry.js", *(() if renews else (HERE / LOCK,))):
            shutil.copy(file, folder)
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--omit-lockfile-registry-resolved")
        _run(folder, "npm", "install" if renews else "ci", *quiet)
        options = ("--bundle", "--minify", "--format=esm", "--legal-comments=none", f"--banner:js={_BANNER}")
        _run(folder, str(folder / "node_modules/.bin/esbuild"), "entry.js", "--outfile=out.js", *options)
        if renews:
            shutil.copy(folder / LOCK, HERE)
        script, packages = (folder / "out.js").read_bytes(), _packages(folder)
    if len(script) > MOST:
        raise SystemExit(f"the bundle has {len(script):,} bytes, more than {MOST:,}")
    rows = [
        {"package": package, "version": version, "licence": licence}
        for package, version, licence, _ in packages
    ]
    listed = {"file": "codemirror.js", "sha256": hashlib.sha256(script).hexdigest(), "made_of": rows}
    under: dict[str, list[str]] = {}
    for package, version, _, text in packages:
        under.setdefault(text.strip(), []).append(f"{package} {version}")
    texts = ["\n".join([*names, "", text, ""]) for text, names in under.items()]
    return {
        "codemirror.js": script,
        "vendored.json": (json.dumps([listed], indent=2) + "\n").encode(),
        "LICENSES.txt": ("codemirror.js is made of these packages.\n\n" + "\n\n".join(texts)).encode(),
    }


def _packages(folder: Path) -> list[tuple[str, str, str, str]]:
    """The name, version, licence and its text of each package in the bundle."""
    found: list[tuple[str, str, str, str]] = []
    for place in sorted(json.loads((folder / LOCK).read_text())["packages"]):
        if not place or "esbuild" in place:
            continue
        told = json.loads((folder / place / "package.json").read_text())
        text = (folder / place / "LICENSE").read_text()
        found.append((told["name"], told["version"], told["license"], text))
    return found


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Write the bundle, or compare it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the bundle would differ")
    parser.add_argument("--renew", action="store_true", help="resolve the versions anew, and lock them")
    given = parser.parse_args()
    made = bundled(renews=given.renew and not given.check)
    there = {file.name: file.read_bytes() for file in OUT.iterdir()} if OUT.exists() else {}
    changed = [name for name, data in made.items() if there.get(name) != data]
    if given.check:
        sys.exit(f"these would change: {', '.join(changed)}" if changed else 0)
    OUT.mkdir(parents=True, exist_ok=True)
    for name in changed:
        (OUT / name).write_bytes(made[name])
    print(
        f"codemirror.js has {len(made['codemirror.js']):,} bytes; written: {', '.join(changed) or 'nothing'}"
    )


if __name__ == "__main__":
    main()
