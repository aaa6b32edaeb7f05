"""The files of the deployment example are valid, and their commands exist.

Whether a cluster accepts them is not tested here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from callsheet.apps.cli.main import main

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = [
    document
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text("utf-8"))
]
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))


def deployments() -> list[dict[str, Any]]:
    """The specs of the pods, at least one."""
    found = [
        document["spec"]["template"]["spec"] for document in MANIFESTS if document["kind"] == "Deployment"
    ]
    assert found
    return found


def commands() -> list[list[str]]:
    """The command lines of the workers."""
    by_compose = [each["command"] for each in COMPOSE["services"].values() if "command" in each]
    by_cluster = [container["args"] for pod in deployments() for container in pod["containers"]]
    return [*by_compose, *by_cluster]


@pytest.mark.parametrize("line", commands(), ids=" ".join)
def test_worker_options_are_valid(line: list[str]) -> None:
    context = click.Context(main)
    command = main.get_command(context, line[0])
    assert command is not None
    made = command.make_context(line[0], line[1:], parent=context, resilient_parsing=False)
    assert made.params["serves"]


def test_user_of_the_image_may_write_to_what_compose_mounts() -> None:
    steps = (DEPLOY / "Dockerfile").read_text("utf-8")
    user = re.search(r"^USER (\d+)$", steps, re.MULTILINE)
    assert user is not None
    assert f"--uid {user[1]} callsheet" in steps
    for name in ("plans", "tools"):
        service = COMPOSE["services"][name]
        options = dict(mount.partition(":")[::2] for mount in service["tmpfs"])
        # a file system in memory belongs to root otherwise, and so does a new volume
        assert f"uid={user[1]}" in options["/home/callsheet"].split(",")
        for mount in service["volumes"]:
            volume, _, folder = mount.partition(":")
            if volume in COMPOSE["volumes"]:
                assert re.search(rf"install --directory --owner=callsheet .*{folder}$", steps, re.MULTILINE)


def test_secrets_and_config_maps_of_pods_exist() -> None:
    names = {(document["kind"], document["metadata"]["name"]) for document in MANIFESTS}
    for pod in deployments():
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert ("ConfigMap", container["envFrom"][0]["configMapRef"]["name"]) in names
            assert ("Secret", container["envFrom"][1]["secretRef"]["name"]) in names
        for volume in pod["volumes"]:
            claim, config = volume.get("persistentVolumeClaim"), volume.get("configMap")
            assert claim is None or ("PersistentVolumeClaim", claim["claimName"]) in names
            assert config is None or ("ConfigMap", config["name"]) in names


def test_pod_grace_period_exceeds_call_timeouts() -> None:
    for pod in deployments():
        (container,) = pod["containers"]
        drain = float(container["args"][container["args"].index("--drain") + 1])
        assert drain < pod["terminationGracePeriodSeconds"]


def test_selectors_match_pods_of_same_file() -> None:
    labels = [
        document["spec"]["template"]["metadata"]["labels"]
        for document in MANIFESTS
        if document["kind"] == "Deployment"
    ]
    for document in MANIFESTS:
        spec = document.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector:
            assert selector["matchLabels"] in labels, document["metadata"]["name"]


def test_server_files_are_valid_configurations() -> None:
    (files,) = (each for each in MANIFESTS if each["metadata"]["name"] == "callsheet-files")
    for text in (files["data"]["mcp.json"], (DEPLOY / "mcp.json").read_text("utf-8")):
        assert json.loads(text) == {"mcpServers": {}}
