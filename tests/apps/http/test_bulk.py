"""One action on many runs: a preview first, then exactly the runs that it showed."""

from __future__ import annotations

import pytest
from tests.apps.http.conftest import Api

ASKS = '# goal: Ask %s\nS1: @ASK_HUMAN ("go on?") > $x'


def begin(api: Api, *names: str, tag: str = "a") -> None:
    for name in names:
        body = {"plan": ASKS % name, "run_id": name, "tags": {"team": tag}}
        assert api("POST", "/v1/runs", body).status < 300
        api.until(name, "waiting")


def bulk(api: Api, action: str, expected: int | None = None, **more: object):
    body = {"action": action, **more, **({} if expected is None else {"expected": expected})}
    return api("POST", "/v1/bulk", body)


def test_runs_that_fit_are_cancelled_rerun_and_deleted(api):
    begin(api, "one", "two")
    begin(api, "other", tag="b")
    where = {"tag": "team=a"}
    preview = bulk(api, "cancel", where=where).json
    assert [row["run_id"] for row in preview["runs"]] == ["two", "one"]
    assert (preview["is_preview"], preview["done"]) == (True, 0)
    assert api.get("/v1/runs?status=waiting&count=true")["counts"] == {"waiting": 3}

    refused = bulk(api, "cancel", 3, where=where)
    assert (refused.status, refused.code) == (409, "API030")
    assert bulk(api, "cancel", 2, where=where).json["done"] == 2
    assert api.get("/v1/runs?count=true")["counts"] == {"cancelled": 2, "waiting": 1}

    again = bulk(api, "rerun", 2, where=where).json
    assert len(again["new_runs"]) == 2
    assert [row["step"] for row in again["runs"]] == ["S1", "S1"]

    gone = bulk(api, "delete", 2, run_ids=["one", "two", "other"]).json
    assert [row["run_id"] for row in gone["runs"]] == ["one", "two"]
    assert gone["skipped"] == [{"run_id": "other", "why": "it has not ended"}]
    assert {row["run_id"] for row in api.get("/v1/runs")["runs"]} == {"other", *again["new_runs"]}


def test_runs_are_paused_and_go_on_together(api):
    begin(api, "one", "two")
    where = {"tag": "team=a"}
    paused = bulk(api, "pause", 2, where=where, reason="prices").json
    assert (paused["done"], paused["skipped"]) == (2, [])
    assert {row["pause"]["reason"] for row in api.get("/v1/runs?status=paused")["runs"]} == {"prices"}
    assert [row["why"] for row in bulk(api, "pause", where=where).json["skipped"]] == [
        "it is paused already"
    ] * 2
    gone_on = bulk(api, "resume", 2, where=where).json
    assert (gone_on["done"], gone_on["skipped"]) == (2, [])
    for name in ("one", "two"):
        api.until(name, "waiting")
    assert [row["why"] for row in bulk(api, "resume", where=where).json["skipped"]] == [
        "it is not paused"
    ] * 2


@pytest.mark.parametrize("more", [{}, {"run_ids": ["a"], "where": {}}])
def test_runs_are_named_in_one_way(api, more):
    assert bulk(api, "delete", **more).code == "API008"


def test_list_is_filtered_by_tags_and_what_is_waited_for(api):
    begin(api, "one")
    begin(api, "other", tag="b")
    (row,) = api.get("/v1/runs?tag=team=b&waits_for=ANSWER")["runs"]
    assert (row["run_id"], row["tags"], row["waits_for"]) == ("other", {"team": "b"}, "an answer at S1")
    assert api.get("/v1/runs?since=1d&until=1h")["runs"] == []
    assert api("GET", "/v1/runs?since=soon").code == "API008"
    assert api("POST", "/v1/runs", {"plan": ASKS % "x", "tags": {"a": "b,c"}}).code == "API008"
