"""No Docker engine is at hand here: the files are held against the specification and against the code they start."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.main import get_command

from autotune.cli.main import app
from autotune.settings import Settings
from tests.compose import FILE, ROOT, command, compose, environment, variables

FILLED = dict.fromkeys(variables(), "") | {"POSTGRES_PASSWORD": "p", "RAY_AUTH_TOKEN": "r", "GRAFANA_PASSWORD": "g"}
OURS = ("service", "mlflow", "ray-head", "ray-gpu-worker", "ray-cpu-worker")


@pytest.fixture(scope="module")
def document() -> dict:
    return compose(FILLED)


def test_the_file_is_valid_by_the_compose_specification(document):
    schema = json.loads((ROOT / "tests" / "fixtures" / "compose" / "compose-spec.json").read_text("utf-8"))
    jsonschema.Draft7Validator(schema).validate(document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate({**document, "servces": {}})


def test_every_part_of_the_topology_is_there(document):
    assert set(document["services"]) == {*OURS, "postgres", "prometheus", "grafana"}
    profiles = {name: service.get("profiles") for name, service in document["services"].items()}
    optional = {name: found for name, found in profiles.items() if found}
    assert optional == {
        "ray-gpu-worker": ["gpu"],
        "ray-cpu-worker": ["cpu"],
        "prometheus": ["monitoring"],
        "grafana": ["monitoring"],
    }
    assert document["services"]["service"]["deploy"]["replicas"] == 2


def test_every_service_comes_back_says_how_it_is_and_names_its_version(document):
    for name, service in document["services"].items():
        assert service["restart"] == "unless-stopped", name
        assert service["healthcheck"]["test"], name
        assert not service["image"].endswith(":latest"), name
        assert ":" in service["image"], name


def test_every_named_volume_is_declared_and_used_and_every_mounted_file_is_here(document):
    mounts = [mount.split(":") for service in document["services"].values() for mount in service.get("volumes", [])]
    assert {source for source, *_ in mounts if not source.startswith(".")} == set(document["volumes"])
    for source, *_ in mounts:
        assert not source.startswith(".") or (ROOT / source).exists(), source


def test_no_secret_is_in_the_files(document):
    text = FILE.read_text("utf-8")
    for name in ("POSTGRES_PASSWORD", "RAY_AUTH_TOKEN", "GRAFANA_PASSWORD"):
        assert variables()[name] == ":?"
        with pytest.raises(KeyError, match=name):
            compose({**FILLED, name: ""})
    assert not re.search(r"(?i)(password|token|secret)\w*: [^$\[{\n]*[A-Za-z0-9]{16,}", text)
    example = (ROOT / ".env.example").read_text("utf-8")
    assert (
        re.findall(r"^(?:POSTGRES_PASSWORD|RAY_AUTH_TOKEN|GRAFANA_PASSWORD)=(.*)$", example, re.MULTILINE) == [""] * 3
    )
    assert {".env", "metrics-token"} <= set((ROOT / ".gitignore").read_text("utf-8").split())


def test_the_example_environment_names_every_variable_and_no_other():
    example = (ROOT / ".env.example").read_text("utf-8")
    assert set(re.findall(r"^(\w+)=", example, re.MULTILINE)) == set(variables())


def test_the_example_environment_changes_no_default():
    example = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env.example").read_text("utf-8"), re.MULTILINE))
    assert compose(FILLED | {name: value for name, value in example.items() if value}) == compose(FILLED)


def test_only_the_service_is_reached_from_other_machines(document):
    for name, service in document["services"].items():
        for port in service.get("ports", []):
            assert name == "service" or str(port).startswith("127.0.0.1:"), (name, port)


def test_the_commands_are_those_of_our_program(document):
    found = command(document, "service")
    assert found[:3] == ["join-ray", "autotune", "serve"]
    serve = get_command(app).commands["serve"]
    serve.make_parser(serve.make_context("serve", [], resilient_parsing=True)).parse_args(found[3:])
    assert command(document, "ray-gpu-worker") == command(document, "ray-cpu-worker")


def test_every_setting_of_the_service_is_one_that_it_reads(document, monkeypatch):
    settings = {name: value for name, value in environment(document, "service").items() if name.startswith("AUTOTUNE_")}
    known = {f"AUTOTUNE_{name.upper()}" for name in Settings.model_fields}
    assert set(settings) <= known
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    read = Settings()
    assert read.ray_address == "ray-head:6379"
    assert read.gpu_memory_gib is None


def test_a_replica_has_the_time_to_drain(document):
    service = document["services"]["service"]
    assert int(service["stop_grace_period"].removesuffix("s")) > 2 * Settings().grace_s + 30


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu"])
def test_what_an_image_copies_is_here_and_goes_to_the_engine(name):
    text = (ROOT / name).read_text("utf-8")
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert any(f"!{'/'.join(source.split('/')[: depth + 1])}" in ignored for depth in range(3)), source
    assert "\nUSER autotune\n" in text


def test_all_images_have_the_same_python_and_the_same_ray():
    files = [(ROOT / name).read_text("utf-8") for name in ("Dockerfile", "Dockerfile.gpu")]
    assert len({re.search(r"^FROM (\S+)", text, re.MULTILINE)[1] for text in files}) == 1
    locks = [(ROOT / "requirements" / name).read_text("utf-8") for name in ("cpu.txt", "gpu.txt")]
    assert len({re.search(r"^ray==(\S+)", text, re.MULTILINE)[1] for text in locks}) == 1


def test_prometheus_finds_the_service_by_the_name_that_it_has_here(document):
    scrape = yaml.safe_load((ROOT / "dashboards" / "prometheus" / "compose.yml").read_text("utf-8"))["scrape_configs"]
    (found,) = scrape[0]["dns_sd_configs"]
    assert found["names"][0] in document["services"]
    assert str(found["port"]) == command(document, "service")[-1]
    assert scrape[0]["authorization"]["credentials_file"] == f"/run/secrets/{next(iter(document['secrets']))}"


def test_join_ray_keeps_the_node_and_runs_the_command(tmp_path: Path):
    ray = tmp_path / "ray"
    ray.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/joined\n')
    ray.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "AUTOTUNE_RAY_ADDRESS": "head:6379"}
    process = subprocess.Popen(
        [str(ROOT / "deploy" / "join-ray"), "sh", "-c", f"echo $$ > {tmp_path}/ran; sleep 60"],
        env={**env, "JOIN_RAY_PAUSE_S": "0.1"},
        start_new_session=True,
    )
    joined, pause = tmp_path / "joined", threading.Event()
    try:
        for _ in range(300):
            if joined.exists() and len(joined.read_text().splitlines()) >= 2 and (tmp_path / "ran").exists():
                break
            pause.wait(0.1)
        lines = joined.read_text().splitlines()
        assert lines[:2] == ["start --block --address=head:6379 --num-cpus=0 --num-gpus=0"] * 2, "it joins again"
        assert int((tmp_path / "ran").read_text()) == process.pid, "the command is the container's first process"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_join_ray_says_what_it_needs(tmp_path: Path):
    env = {name: value for name, value in os.environ.items() if name != "AUTOTUNE_RAY_ADDRESS"}
    done = subprocess.run([str(ROOT / "deploy" / "join-ray"), "true"], env=env, capture_output=True, text=True)
    assert done.returncode != 0
    assert "AUTOTUNE_RAY_ADDRESS" in done.stderr
