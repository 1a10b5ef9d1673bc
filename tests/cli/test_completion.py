"""Tab, as shells ask for it: the completion protocol of a real process, over a real database and a real service."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.api import create_app
from autotune.search.types import Attempt, Trial
from autotune.settings import Settings
from autotune.states import JobState, TrialState
from autotune.store import NewJob, SqlBook, Store
from tests.fakes import FakeService, finished_job, finished_trials, make_job, make_stages
from tests.serving import served

PROGRAM = Path(sys.executable).with_name("autotune")


def offered(line: str, home: Path, shell: str = "bash", **more: str) -> list[str]:
    """What a shell offers at the end of the line; nothing may come on stderr."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AUTOTUNE_")}
    env = {**kept, **asked, "AUTOTUNE_HOME": str(home), "_AUTOTUNE_COMPLETE": f"complete_{shell}", **more}
    if shell == "fish":
        env["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    done = subprocess.run([PROGRAM], env=env, cwd=home.parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with two jobs, the older one with two trials."""
    home = tmp_path_factory.mktemp("completion") / "home"
    home.mkdir()
    store = Store(Settings(home=home).study_database)
    store.migrate()
    with store.begin() as work:
        job = work.jobs.add(NewJob(name="reward-search", document={"name": "reward-search"}), 1.0)
        lease = work.jobs.lease(job.id, "driver", 2.0, 30.0)
        work.jobs.set_state(job.id, JobState.RUNNING, 3.0, lease=lease)
        study = work.jobs.studies(job.id)[0]
        work.jobs.add(NewJob(name="kl-search", document={"name": "kl-search"}), 4.0)
    book = SqlBook(store, study.id, lease)
    for number in range(2):
        attempt = Attempt(trial=number, number=1, token=f"token-{number}")
        trial = Trial(
            number=number,
            state=TrialState.RUNNING,
            source="sampler",
            params={},
            config={},
            attempt=attempt,
            created_at=5.0,
            started_at=6.0,
        )
        book.save(trial)
    store.close()
    return home


@pytest.mark.parametrize("command", ["show", "logs", "cancel", "diagnose"])
def test_every_command_about_a_job_offers_the_jobs(home, command):
    assert offered(f"autotune {command} ", home) == ["kl-search-1", "reward-search-1"]


def test_only_what_fits_the_letters_is_offered(home):
    assert offered("autotune show rew", home) == ["reward-search-1"]
    assert offered("autotune launch --resume kl", home) == ["kl-search-1"]
    assert offered("autotune show zzz", home) == []


def test_trials_of_the_job_on_the_line_are_offered(home):
    assert offered("autotune logs reward-search-1 --trial ", home) == ["0", "1"]
    assert offered("autotune diagnose reward-search-1 ", home) == ["0", "1"]
    assert offered("autotune export kl-search-1 --trial ", home) == []


def test_spaces_and_files_are_offered(home):
    (home.parent / "mine.yaml").write_text("name: mine\n")
    (home.parent / "notes.txt").write_text("not a space\n")
    assert offered("autotune launch quick", home) == ["quickstart", "quickstart-three-stage"]
    assert offered("autotune plan m", home) == ["mine.yaml"]
    assert offered("autotune plan ./", home) == ["./mine.yaml", "./home/"]


def test_targets_and_states_are_offered(home):
    assert offered("autotune export x --to v", home) == ["verl"]
    assert offered("autotune jobs --state c", home) == ["completed", "cancelled"]


def test_zsh_and_fish_see_the_state_beside_the_name(home):
    assert '"reward-search-1":"running"' in offered("autotune show rew", home, "zsh")[0]
    assert offered("autotune show rew", home, "fish") == ["reward-search-1\trunning"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_a_real_bash_completes_after_sourcing_what_the_command_prints(home):
    script = (
        'eval "$(_AUTOTUNE_COMPLETE=source_bash autotune)"; COMP_WORDS=(autotune best rew); COMP_CWORD=2; '
        '_autotune_completion autotune; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "AUTOTUNE_HOME": str(home), "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == ["reward-search-1"]


def test_a_service_is_asked_when_there_is_one(tmp_path):
    service = FakeService(tmp_path)
    service.add(finished_job(), finished_trials())
    service.add(make_job("staged-1", state="running", stage="effect", stages=make_stages()))
    with served(create_app(service, Settings(home=tmp_path))) as url:
        assert offered("autotune show d", tmp_path / "home", AUTOTUNE_URL=url) == ["demo-1"]
        assert offered("autotune logs demo-1 --trial ", tmp_path / "home", AUTOTUNE_URL=url) == ["0", "1", "2", "3"]
        assert offered("autotune show staged-1 --stage ", tmp_path / "home", AUTOTUNE_URL=url) == ["fast", "effect"]


def test_whatever_goes_wrong_is_silent_and_leaves_nothing_behind(tmp_path):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        home = tmp_path / "home"
        assert offered("autotune show ", home, AUTOTUNE_URL=nobody) == []
        assert offered("autotune show ", home, AUTOTUNE_URL="nonsense") == []
        assert offered("autotune show ", home) == []
        assert offered("autotune plan nowhere/", home) == []
        assert not home.exists()
        home.mkdir()
        (home / "autotune.db").write_text("this is no database")
        assert offered("autotune show ", home) == []
