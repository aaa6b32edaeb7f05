"""Versions, parameters and exports of stored plans: nothing is lost or overwritten."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import forked
from tests.dag_plans import dag_plans

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp import parse
from callsheet.frontends.micro import parse_micro
from callsheet.frontends.spelling import Syntax
from callsheet.store.library import Param, ParamKind, PlanLibrary, bind, free_variables, read_params
from callsheet.store.library.library import export_plans, import_plans


def text_of(word: str) -> str:
    return f'PLAN_START\nS1: @SEND (to=$who, text="{word} $note") > $x\nPLAN_END\n'


@pytest.fixture
def library(tmp_path: Path) -> PlanLibrary:
    return PlanLibrary(tmp_path / "plans")


def save(library: PlanLibrary, word: str, plan_id: str = "p", **more):
    text = text_of(word)
    plan = parse(text).require()
    return library.save(plan, plan_id, text=text, syntax=Syntax.LTP, replaces=True, **more)


def refused(code: str):
    return pytest.raises(CallsheetError, match=code)


# ---------------------------------------------------------------- versions


def test_save_makes_version_and_keeps_old_ones(library):
    for number, word in enumerate(("one", "two", "three"), start=1):
        stored = save(library, word)
        assert (stored.version, stored.name, stored.is_edited) == (number, f"p@{number}", False)
    assert library.load("p").text == text_of("three")
    assert [library.load(f"p@{n}").text for n in (1, 2, 3)] == [text_of(w) for w in ("one", "two", "three")]
    assert [record.version for record in library.versions("p")] == [1, 2, 3]


def test_saving_same_text_makes_no_version(library):
    save(library, "one")
    assert save(library, "one").version == 1
    assert save(library, "one", goal="Tell them").version == 2
    assert save(library, "one").version == 2  # the goal is kept
    assert save(library, "one", tools={"SEND": "sha256:1"}).version == 3


def test_missing_version_is_reported(library):
    save(library, "one")
    (library.folder / "q.ltp").write_text(text_of("one"))
    for named in ("p@2", "p@0", "p@x", "p@", "p@-1", "p@1@1", "q@1"):
        with refused("PLN021"):
            library.load(named)
    with refused("PLN001"):
        library.load("../p@1")


def test_manual_edit_is_used_and_versioned_before_replacement(library):
    save(library, "one", goal="Tell them", params=read_params(["who", "note"]))
    (library.folder / "p.ltp").write_text(text_of("by hand"))
    edited = library.load("p")
    assert (edited.version, edited.is_edited, edited.text) == (1, True, text_of("by hand"))
    assert [param.name for param in edited.params] == ["who", "note"]
    assert save(library, "two").version == 3
    one, hand, two = library.versions("p")
    assert (one.is_by_hand, hand.is_by_hand, two.is_by_hand) == (False, True, False)
    assert (hand.text, hand.goal) == (text_of("by hand"), "Tell them")


def test_manually_added_file_is_versioned_on_replacement(library):
    library.folder.mkdir()
    (library.folder / "p.ltp").write_text(text_of("by hand"))
    assert library.load("p").version is None
    assert save(library, "one").version == 2
    assert library.load("p@1").text == text_of("by hand")


def test_renaming_moves_versions_and_deleting_removes_them(library):
    save(library, "one")
    save(library, "two")
    library.rename("p", "q")
    assert library.load("q@1").text == text_of("one")
    assert library.ids() == ("q",)
    library.delete("q")
    assert save(library, "three", "q").version == 1
    assert save(library, "three", "p").version == 1


def test_renamed_graph_is_new_version_under_new_id(library):
    graph = {
        "id": "g",
        "title": "T",
        "steps": [{"index": "1", "title": "A", "tool": "a", "args": {}, "depends_on": []}],
    }
    from callsheet.frontends.dag import parse_dag

    library.save(parse_dag(json.dumps(graph)).require())
    stored = library.rename("g", "h")
    assert (stored.version, stored.is_edited, stored.require().id) == (2, False, "h")
    assert library.load("h@1").require().id == "h"


def test_modified_version_is_reported_and_not_used(library):
    save(library, "one")
    path = library.folder / ".versions" / "p" / "1.json"
    path.write_text(path.read_text().replace("one", "two"))
    with refused("its digest does not match"):
        library.load("p")
    assert [listed.steps for listed in library.list()] == [None]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans=st.lists(dag_plans(3), min_size=1, max_size=4), data=st.data())
def test_versions_and_export_round_trip_for_any_history(plans, data):
    """Versions are numbered consecutively, none changes, an export contains all, an import restores them."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        library, told = PlanLibrary(folder), {}
        for plan in plans:
            plan_id = data.draw(st.sampled_from(["a", "b"]))
            texts = told.setdefault(plan_id, [])
            goal = data.draw(st.none() | st.text(max_size=5))
            stored = library.save(plan, plan_id, replaces=True, goal=goal)
            if stored.version != len(texts):
                texts.append(stored.text)
            assert stored.version == len(texts)
        for plan_id, texts in told.items():
            assert [library.load(f"{plan_id}@{n}").text for n in range(1, len(texts) + 1)] == texts
            assert library.load(plan_id).text == texts[-1]
        text = export_plans(library, sorted(told))
        again = PlanLibrary(other)
        assert {(each.id, each.added) for each in import_plans(again, text)} == {
            (i, len(t)) for i, t in told.items()
        }
        assert export_plans(again, sorted(told)) == text
        assert [each.added for each in import_plans(again, text)] == [0] * len(told)
        for plan_id in told:
            assert again.versions(plan_id) == library.versions(plan_id)
            assert again.load(plan_id).require() == library.load(plan_id).require()


SAVER = """
import sys
from callsheet.frontends.ltp import parse
from callsheet.store.library import PlanLibrary
library, name = PlanLibrary(sys.argv[1]), sys.argv[2]
for number in range(8):
    text = f'PLAN_START\\nS1: @RESPOND ("{name} {number}")\\nPLAN_END\\n'
    library.save(parse(text).require(), "p", text=text, syntax="ltp", replaces=True)
"""


def test_concurrent_saves_lose_no_version(library):
    savers = [
        forked.Popen([sys.executable, "-c", SAVER, str(library.folder), name]) for name in ("ada", "bo")
    ]
    assert [saver.wait(60) for saver in savers] == [0, 0]
    records = library.versions("p")
    assert [record.version for record in records] == list(range(1, 17))
    assert len({record.text for record in records}) == 16
    assert not any(record.is_by_hand for record in records)
    assert not library.load("p").is_edited


def test_killed_save_leaves_usable_plan(library):
    """Killed between the file and its version: the text counts, and the next save makes a version of it."""
    save(library, "one")
    code = SAVER.replace(
        "library, name",
        "import callsheet.store.library.plan_files as v\nimport os\n"
        "v.Versions.write = lambda *a: os.kill(os.getpid(), 9)\nlibrary, name",
    )
    killed = forked.run([sys.executable, "-c", code, str(library.folder), "ada"], check=False)
    assert killed.returncode == -9
    stored = library.load("p")
    assert (stored.version, stored.is_edited) == (1, True)
    assert stored.require().steps
    assert save(library, "three").version == 3


# ---------------------------------------------------------------- exports


def exported(library: PlanLibrary) -> str:
    save(
        library, "one", params=read_params(["who:text", 'note="x"']), tools={"SEND": "sha256:1"}, goal="Tell"
    )
    save(library, "two", compiled={"model": "m", "catalogue": "sha256:2"})
    return export_plans(library, ["p"])


def test_import_includes_versions_and_parameters(library, tmp_path):
    other = PlanLibrary(tmp_path / "other")
    assert import_plans(other, exported(library)) == [("p", 2, 2)]
    assert other.versions("p") == library.versions("p")
    stored = other.load("p")
    assert (stored.goal, stored.compiled) == ("Tell", {"model": "m", "catalogue": "sha256:2"})
    assert list(map(str, stored.params)) == ["who:text", 'note="x"']
    assert other.load("p@1").tools == {"SEND": "sha256:1"}


def test_renamed_plan_is_exported_under_new_id(library, tmp_path):
    exported(library)
    library.rename("p", "q")
    assert {record.id for record in library.versions("q")} == {"q"}
    other = PlanLibrary(tmp_path / "other")
    assert import_plans(other, export_plans(library, ["q"])) == [("q", 2, 2)]


def test_import_adds_missing_versions_and_overwrites_nothing(library, tmp_path):
    text = exported(library)
    other = PlanLibrary(tmp_path / "other")
    import_plans(other, text)
    save(library, "three")
    newer = export_plans(library, ["p"])
    assert import_plans(other, newer) == [("p", 1, 3)]
    assert other.load("p").text == text_of("three")
    assert import_plans(other, text) == [("p", 0, 3)]
    assert other.load("p").text == text_of("three")
    save(other, "elsewhere")
    save(library, "four")
    with refused("PLN027: the plan p differs from the one here: version 4 differs"):
        import_plans(other, export_plans(library, ["p"]))
    assert other.load("p").text == text_of("elsewhere")
    assert import_plans(other, export_plans(library, ["p"]), as_id="q") == [("q", 4, 4)]


def test_manually_changed_text_is_not_overwritten(library, tmp_path):
    other = PlanLibrary(tmp_path / "other")
    import_plans(other, exported(library))
    (other.folder / "p.ltp").write_text(text_of("by hand"))
    save(library, "three")
    with refused("its file has changed since version 2"):
        import_plans(other, export_plans(library, ["p"]))
    (other.folder / "q.ltp").write_text(text_of("by hand"))
    with refused("its file was added by hand"):
        import_plans(other, export_plans(library, ["p"]), as_id="q")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_modified_export_is_refused(data):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        text = exported(PlanLibrary(folder, clock=lambda: 1.5))
        at = data.draw(st.integers(0, len(text) - 2))
        char = data.draw(st.sampled_from('x1",{}\\ '))
        changed = text[:at] + char + text[at + 1 :]
        library = PlanLibrary(other)
        try:
            same = json.loads(changed) == json.loads(text)
        except ValueError:
            same = False
        if same:
            return
        with refused("PLN026"):
            import_plans(library, changed)
        assert library.ids() == ()


def test_hostile_exports_write_nothing(library, tmp_path):
    from callsheet.store.library.record import digest

    exported(library)
    (record, _) = library.versions("p")
    for plan_id in ("../p", ".versions", "a/b", "", "A"):
        data = {"callsheet": "plans", "format": 1, "plans": [{"id": plan_id, "versions": [record.to_json()]}]}
        other = PlanLibrary(tmp_path / "other")
        with refused("PLN026"):
            import_plans(other, json.dumps({**data, "sha256": digest(data)}))
        assert not other.folder.exists()


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("1x", "is not a parameter"),
        ("a b", "is not a parameter"),
        ("a:colour", "there is no kind colour"),
        ("a:int=many", "the default of the parameter a is not a whole number"),
        ("a,a", "is given twice"),
        ("", "is not a parameter"),
    ],
)
def test_invalid_parameter_is_reported(spec, said):
    with pytest.raises(CallsheetError, match=said) as error:
        read_params([spec])
    assert error.value.diagnostics[0].code == "PLN022"


def test_unused_parameter_is_reported_with_suggestion(library):
    with refused("no step of the plan reads .whom") as error:
        save(library, "one", params=read_params(["whom"]))
    assert error.value.diagnostics[0].help == "did you mean who?"
    assert library.ids() == ()


def test_unset_variables_of_plan_are_listed():
    plan = parse(
        "S1: @A (x=$a) > $b\nS2: ?FOREACH ($i IN $b) THEN @B ($i, $c) > $d\nS3: @RESPOND ($d)"
    ).partial
    assert free_variables(plan) == ("a", "c")


def test_bare_parameter_in_micro_stays_parameter(library):
    text = "search topic > hits\nrespond hits\n"
    plan = parse_micro(text, variables=["topic"]).require()
    stored = library.save(plan, "p", text=text, syntax=Syntax.MICRO, params=read_params(["topic"]))
    assert stored.require().steps == plan.steps
    other = PlanLibrary(library.folder.parent / "other")
    import_plans(other, export_plans(library, ["p"]))
    assert other.load("p@1").require().steps == plan.steps


def test_parameters_still_read_by_new_version_are_kept(library):
    save(library, "one", params=read_params(["who", "note"]))
    text = "PLAN_START\nS1: @SEND (to=$who)\nPLAN_END\n"
    stored = library.save(parse(text).require(), "p", text=text, syntax=Syntax.LTP, replaces=True)
    assert stored.params == (Param("who"),)


def test_values_are_bound_by_type_and_defaults_apply():
    params = read_params(['repo:text,count:int=5,tags:list=["a"],loud:bool=false,ratio:number=1'])
    assert bind("p", params, {"repo": 17, "x": 1}, {"repo": "17"}) == {
        "repo": "17", "count": 5, "tags": ["a"], "loud": False, "ratio": 1, "x": 1
    }  # fmt: skip
    with pytest.raises(CallsheetError) as error:
        bind("p", params, {"count": True, "rep": "x"})
    codes = [(d.code, d.message.split()[2]) for d in error.value.diagnostics]
    assert codes == [("PLN023", "repo"), ("PLN024", "count")]
    assert error.value.diagnostics[0].help == "give --var repo=VALUE; is rep a misspelling of it?"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(
    st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True), st.sampled_from(ParamKind), _JSON, st.booleans()
)
def test_parameters_round_trip(name, kind, default, has_default):
    param = Param(name, kind, default if has_default else None, has_default)
    assert Param.from_json(json.loads(json.dumps(param.to_json()))) == param
    if not has_default or param.takes(default):
        assert read_params([str(param), "other"]) == (param, Param("other")) or name == "other"
