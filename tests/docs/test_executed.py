"""Every command of the pages, in a block or in the text, is run as it stands, over a real service and database.

Commands that train or that stay until they are stopped are run by the tests that are named here, as whole processes.
"""

import re
import shlex

import pytest
from typer.testing import CliRunner

from autotune.cli.main import app
from autotune.states import JobState
from tests.docs.prepared import PreparedHome
from tests.docs.reading import PAGES, ROOT, commands, mentions

ELSEWHERE = {
    "launch": ("tests/e2e/test_newcomer.py", '"launch"'),
    "up": ("tests/e2e/test_newcomer.py", '"autotune", "up"'),
    "serve": ("tests/e2e/test_serve.py", '"serve"'),
    "register": ("tests/e2e/test_launch.py", '"register"'),
}
"""Command -> the test that runs it as a process, and what stands there."""
NEEDS = {
    "pause": JobState.RUNNING,
    "stop": JobState.RUNNING,
    "cancel": JobState.RUNNING,
    "edit": JobState.RUNNING,
    "enqueue": JobState.RUNNING,
    "resume": JobState.PAUSED,
}
WRITTEN_BY_HAND = [page for page in PAGES if not {"adr", "reference"} & {part.name for part in page.parents}]
"""The rest tells what was decided, or gives the usage of each command, in a form that nobody types."""


def lines(page):
    """The commands of a page's blocks, and those of its text that are more than a command's name."""
    mentioned = [words for words in mentions(page) if len(words) > 1] if page in WRITTEN_BY_HAND else []
    return {tuple(words): None for words in [*commands(page), *mentioned]}


ASKED = [
    pytest.param(words, id=f"{page.stem}: {' '.join(words)}")
    for page in PAGES
    for words in lines(page)
    if words[0] not in ELSEWHERE and not words[0].startswith("-")
]
MENTIONED = re.compile(r"\b(JOB|my-search-1|quickstart-1)\b")
STANDS_FOR = {"SPACE": "space.yaml", "my-search.yaml": "space.yaml", "FILE": "copy.tar", "NAME": "effect"}


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    for name in ("AUTOTUNE_URL", "AUTOTUNE_TOKEN", "AUTOTUNE_DATABASE_URL", "AUTOTUNE_MLFLOW_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return PreparedHome(tmp_path)


def execute(*words):
    return CliRunner().invoke(app, list(words), input="\n" * 20)


@pytest.mark.parametrize("words", ASKED)
def test_a_command_of_the_pages_works_as_it_stands(prepared, words):
    line = shlex.join(STANDS_FOR.get(word, word) for word in words)
    if MENTIONED.search(line):
        needed = JobState.PAUSED if "--search" in words else NEEDS.get(words[0], JobState.COMPLETED)
        job = prepared.staged() if "--stage" in words else prepared.job(needed)
        line = MENTIONED.sub(job, line)
    if words[:2] == ("token", "create") and "admin" not in words:
        assert execute("token", "create", "owner", "--role", "admin").exit_code == 0
    if "TOKEN_ID" in line:
        made = execute("token", "create", "somebody", "--role", "admin", "--json")
        line = line.replace("TOKEN_ID", re.search(r'"id": "([^"]+)"', made.stdout)[1])
    if "/models/my-model" in line:
        model = prepared.folder / "my-model"
        model.mkdir()
        (model / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
        line = line.replace("/models/my-model", str(model))
    if words[0] == "init" and "--yes" not in words:
        (prepared.folder / "space.yaml").unlink()
        line += " --yes"
    elif words[0] == "init":
        (prepared.folder / "space.yaml").unlink()
    done = execute(*shlex.split(line))
    assert done.exit_code == 0, (line, done.stdout[-800:], done.stderr[-800:])


@pytest.mark.parametrize("command", ELSEWHERE)
def test_what_is_not_run_here_is_run_by_the_test_that_is_named(command):
    file, text = ELSEWHERE[command]
    assert text in (ROOT / file).read_text()
    assert any(words[0] == command for page in PAGES for words in commands(page))


def test_every_space_that_a_page_launches_can_be_planned(prepared):
    spaces = {words[1] for page in PAGES for words in commands(page) if words[0] == "launch" and len(words) == 2}
    assert "quickstart-three-stage" in spaces
    for space in spaces - {"--resume"}:
        done = execute("plan", space)
        assert done.exit_code == 0, (space, done.stderr)
