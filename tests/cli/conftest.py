import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner, Result

from autotune.api import create_app
from autotune.cli.main import app
from autotune.settings import Settings
from tests.fakes import SPACE, FakeService
from tests.serving import served

Script = Callable[[FakeService, str, Callable[[], None]], None]


class NoDrivers:
    """Starts nobody, ahead or not."""

    def __init__(self, *, ahead: bool) -> None:
        pass

    def get_ready(self) -> None:
        pass

    def end(self) -> None:
        pass


def service_module(service: FakeService, script: Script) -> ModuleType:
    """What ``autotune.service`` offers to the command line, over the fake."""
    module = ModuleType("autotune.service")
    module.open_service = lambda settings: service
    module.run_embedded = lambda found, settings, job, on_tick, starts: script(found, job, on_tick)
    module.Drivers = NoDrivers
    return module


@dataclass
class Cli:
    """Runs the real command line in this process over a fake service."""

    service: FakeService
    home: Path
    script: Script = lambda service, job, on_tick: None

    def __call__(self, *arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=text)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    home = tmp_path / "home"
    for name in ("AUTOTUNE_URL", "AUTOTUNE_DEBUG", "AUTOTUNE_MLFLOW_URI", "AUTOTUNE_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AUTOTUNE_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    directory = home / "jobs" / "demo-1"
    directory.mkdir(parents=True)
    cli = Cli(FakeService(directory), home)
    module = service_module(cli.service, lambda *arguments: cli.script(*arguments))
    monkeypatch.setitem(sys.modules, "autotune.service", module)
    return cli


@pytest.fixture
def remote(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    """The same command line, talking over a real connection."""
    with served(create_app(cli.service, Settings(home=cli.home))) as url:
        monkeypatch.setenv("AUTOTUNE_URL", url)
        yield cli


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    return path
