"""The wheel carries everything that runs outside a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow

WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = None
sys.argv = ["trainer", "--help"]
runpy.run_module("trainer", run_name="__main__")
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOTUNE_", "PYTHON"))}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**env, "HOME": str(cwd)}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it and the locked dependencies beside it, but not the checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory / "dist", cwd=ROOT)
    assert built.returncode == 0, built.stderr
    (wheel,) = (directory / "dist").glob("*.whl")
    environment = directory / "environment"
    assert run(sys.executable, "-m", "venv", environment, cwd=directory).returncode == 0
    python = environment / "bin" / "python"
    answer = run(python, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", wheel, cwd=directory)
    assert answer.returncode == 0, answer.stderr
    (site,) = (environment / "lib").glob("python*/site-packages")
    # A path named in a .pth file is not searched for further .pth files: the editable install stays out of sight.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return environment


def test_the_installed_packages_are_the_wheels_own(installed, tmp_path):
    code = "import autotune, trainer; print(autotune.__file__); print(trainer.__file__)"
    places = run(installed / "bin" / "python", "-c", code, cwd=tmp_path).stdout.split()
    assert len(places) == 2
    assert all(place.startswith(str(installed)) for place in places)


def test_the_shipped_spaces_are_found(installed, tmp_path):
    answer = run(installed / "bin" / "autotune", "spaces", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "quickstart" in answer.stdout


def test_a_shipped_space_can_be_planned_with_the_shipped_configuration(installed, tmp_path):
    answer = run(installed / "bin" / "autotune", "plan", "quickstart", "--json", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert '"quickstart"' in answer.stdout


def test_the_trainer_explains_itself_without_torch(installed, tmp_path):
    answer = run(installed / "bin" / "python", "-c", WITHOUT_TORCH, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "--config-name" in answer.stdout
