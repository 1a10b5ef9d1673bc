"""Two runs of verl on one machine: the launcher gives each Ray, and so each run's sockets, a job id of its own."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from autotune.backends.adapter.verl import LAUNCHER, launched
from tests.backends.verl_wheel import real_verl

SUPPORT = Path(__file__).parents[1] / "support"
SHOW = """
import json, numbers, record_of_mine, sys
if __name__ == "__main__":
    print(json.dumps({"argv": sys.argv, "first": sys.path[0], "numbers": numbers.__file__, "spec": __spec__.name}))
"""


def run(*arguments, cwd):
    env = {**os.environ, "PYTHONPATH": ""}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def here(tmp_path):
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "record_of_mine.py").touch()
    return tmp_path


def test_a_module_starts_as_it_does_with_the_option_m(here):
    plain, ours = run("-m", "show", "a=1", cwd=here), run(str(LAUNCHER), "show", "a=1", cwd=here)
    assert ours.returncode == 0, ours.stderr
    assert json.loads(ours.stdout) == json.loads(plain.stdout)
    assert json.loads(ours.stdout)["spec"] == "show"


@pytest.mark.parametrize(("state", "warned"), [("def next_job_id():\n    return 1\n", False), ("", True), (None, True)])
def test_a_ray_that_takes_no_job_id_is_run_with_a_warning(here, state, warned):
    private = here / "ray" / "_private"
    private.mkdir(parents=True)
    (here / "ray" / "__init__.py").touch()
    if state is not None:
        (private / "state.py").write_text(state)
    program = "import contextlib, importlib, ray\nwith contextlib.suppress(ImportError):\n"
    (here / "train.py").write_text(f"{program}    importlib.import_module('ray._private.state')\nprint('trained')\n")
    said = run(str(LAUNCHER), "train", cwd=here).stdout
    assert said.startswith("trained\n")
    assert ("share sockets" in said) == warned


def test_a_module_without_ray_is_none_of_its_business(here):
    assert run(str(LAUNCHER), "show", cwd=here).stdout.count("\n") == 1


def test_only_a_module_goes_by_way_of_the_launcher():
    command = ["/opt/verl/bin/python", "-m", "verl.trainer.main_ppo", "--config-name", "ppo_trainer"]
    assert launched(command) == ["/opt/verl/bin/python", str(LAUNCHER), *command[2:]]
    assert launched(["python", "main.py", "a=1"]) == ["python", "main.py", "a=1"]


def test_both_ends_of_verls_sockets_take_their_name_from_the_job_id_alone():
    rollout = real_verl() / "verl" / "workers" / "rollout" / "vllm_rollout"
    name = 'f"ipc:///tmp/rl-colocate-zmq-{job_id}-replica-'
    for file in ("vllm_rollout.py", "utils.py"):
        assert name in (rollout / file).read_text()
    assert "job_id = ray.get_runtime_context().get_job_id()" in (rollout / "vllm_rollout.py").read_text()
    assert 'job_id = os.environ.get("VERL_RAY_JOB_ID"' in (rollout / "utils.py").read_text()
    handed = 'os.environ["VERL_RAY_JOB_ID"] = ray.get_runtime_context().get_job_id()'
    assert handed in (rollout / "vllm_async_server.py").read_text()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_rays_side_by_side_bind_the_sockets_of_two_runs(tmp_path):
    names = [tmp_path / "first", tmp_path / "second"]
    started = []
    with tempfile.TemporaryDirectory(prefix="rays-", dir="/tmp") as short:
        for mine, other in (names, reversed(names)):
            place = Path(short, mine.name)
            place.mkdir()
            env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
            env |= {"RAY_ADDRESS": "local", "RAY_TMPDIR": str(place), "PYTHONPATH": str(SUPPORT)}
            command = [sys.executable, str(LAUNCHER), "socket_owner", str(mine), str(other)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            started.append(subprocess.Popen(command, env=env, **pipes))
        said = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    first, second = (name.read_text() for name in names)
    assert first != second
