"""The modules of the viewer as one script, and a page that can execute nothing else."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts.codemirror import HERE, MOST

from callsheet.runtime.reporting import the_viewer
from callsheet.views.report.page import NotBundled, bundle, embedded, page_of


def test_modules_precede_importers_once():
    script = bundle(
        {
            "./main.js": 'import a from "./a.js";\nimport { b as c } from "./b.js";\na(c);\n',
            "./a.js": 'import { b } from "./b.js";\nexport default b;\n',
            "./b.js": "export const b = 1;\nexport function f() {}\n",
        },
        "./main.js",
    )
    assert script.count("const b = 1;") == 1
    assert script.index("const b = 1;") < script.index("const $default=b;") < script.index("a(c);")
    assert "import" not in script
    assert "export" not in script


def test_module_cycle_and_missing_module_are_refused():
    with pytest.raises(NotBundled, match=r"a\.js imports itself"):
        bundle({"./a.js": 'import { a } from "./a.js";'}, "./a.js")
    with pytest.raises(NotBundled, match=r"b\.js is not there"):
        bundle({"./a.js": 'import { b } from "./b.js";'}, "./a.js")


def test_modules_of_other_folders_are_resolved_from_importer():
    script = bundle(
        {
            "web/app.js": 'import { b } from "../viewer/b.js";\nb;\n',
            "viewer/b.js": 'import { c } from "./c.js";\nexport const b = c;\n',
            "viewer/c.js": "export const c = 1;\n",
        },
        "web/app.js",
    )
    assert script.index("const c = 1;") < script.index("const b = c;") < script.index("\nb;")


def test_script_end_tag_is_refused():
    with pytest.raises(NotBundled):
        bundle({"./a.js": 'const a = "</script>";'}, "./a.js")


def test_viewer_bundle_is_deterministic_without_imports_or_exports():
    script = the_viewer().script
    the_viewer.cache_clear()
    assert the_viewer().script == script
    assert not re.search(r"^\s*(?:import|export)\b", script, re.MULTILINE)


@pytest.mark.parametrize("place", ["views/viewer", "apps/web"])
def test_vendored_files_are_those_listed(place):
    folder = files("callsheet") / place / "vendor"
    told = json.loads(folder.joinpath("vendored.json").read_text())
    there = {file.name for file in folder.iterdir() if file.name.endswith(".js")}
    assert {row["file"] for row in told} == there
    for row in told:
        assert hashlib.sha256(folder.joinpath(row["file"]).read_bytes()).hexdigest() == row["sha256"]
        assert folder.joinpath(row["file"]).stat().st_size <= MOST
    licences = folder.joinpath("LICENSES.txt").read_text()
    assert all(row["file"] in licences for row in told)
    assert all(part["package"] in licences for row in told for part in row.get("made_of", ()))


def test_bundled_editor_is_of_the_versions_and_names_that_the_script_asks_for():
    folder = files("callsheet.apps.web") / "vendor"
    (row,) = json.loads(folder.joinpath("vendored.json").read_text())
    made_of = {part["package"]: part["version"] for part in row["made_of"]}
    asked = json.loads((HERE / "package.json").read_text())["dependencies"]
    assert {name: made_of.get(name, version) for name, version in asked.items()} == asked
    (exported,) = re.findall(r"export\{([^{}]*)\};\s*$", folder.joinpath("codemirror.js").read_text())
    wanted = ",".join(re.findall(r"export \{([^}]*)\}", (HERE / "entry.js").read_text()))
    assert {part.split()[-1] for part in exported.split(",")} == {*re.findall(r"\w+", wanted)}


@given(st.recursive(st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists))
def test_page_data_is_never_markup_and_round_trips(data):
    text = embedded(data)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == data
    text.encode()


def test_page_runs_only_own_script_and_style():
    page = page_of({"a": "</script><script>alert(1)</script>"}, "<b>", "let a = 1;", "b { }")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None

    def hashed(text: str) -> str:
        return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == hashed("let a = 1;")
    assert rules["style-src"] == hashed("b { }")
    assert "unsafe" not in policy[1]
    assert page.count("</script>") == 2
    assert "<title>&lt;b&gt;</title>" in page
