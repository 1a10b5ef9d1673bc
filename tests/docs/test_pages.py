"""What the pages say is parsed by the real command line and read by the real loader."""

import re

import pytest
import typer
import yaml

from autotune.cli.main import app
from autotune.service.spaces import resolve_space
from autotune.spec.loader import load_space
from tests.docs.reading import PAGES, ROOT, blocks, commands, mentions

COMMAND = typer.main.get_command(app)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
PAGE = pytest.mark.parametrize("page", PAGES, ids=NAMES)


def leaf(words):
    """The command that the words name, and the words that are left for it."""
    command, rest = COMMAND, list(words)
    while rest and getattr(command, "commands", None):
        assert rest[0] in command.commands, f"there is no command {' '.join(words)!r}"
        command = command.commands[rest.pop(0)]
    return command, rest


@PAGE
def test_every_command_in_a_block_is_one_that_parses(page):
    for words in commands(page):
        if words[0] in ("--help", "--version", "--install-completion"):
            continue
        command, rest = leaf(words)
        command.make_context(words[0], rest)


@PAGE
def test_every_command_in_the_text_exists_with_its_options(page):
    for words in mentions(page):
        if words[0].startswith("-") or "|" in words[0] or not words[0].islower():
            continue
        command, rest = leaf(words)
        known = {option for one in command.params for option in [*one.opts, *one.secondary_opts]}
        known |= {"--help", "-h"}
        assert {word.partition("=")[0] for word in rest if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)} <= known, words


@PAGE
def test_every_link_to_a_file_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@PAGE
def test_every_block_of_yaml_is_yaml_and_every_whole_space_is_one(page, tmp_path):
    for text in blocks(page, "yaml"):
        document = yaml.safe_load(text)
        if not isinstance(document, dict) or not {"name", "search", "budget"} <= document.keys():
            continue
        space = load_space(text, file=page.name)
        if space.trainer.backend == "native":
            resolve_space(text, page.name)


def test_the_picture_in_the_readme_is_one_of_a_sensible_size():
    (name,) = re.findall(r"!\[[^\]]+\]\(([^)]+\.png)\)", (ROOT / "README.md").read_text())
    picture = (ROOT / name).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert 10_000 < len(picture) < 200_000
    assert (ROOT / name).with_name("take.py").is_file(), "the script that takes it again"


def test_the_pages_hold_commands_and_spaces_to_look_at():
    assert sum(len(commands(page)) for page in PAGES) >= 20
    spaces = [text for page in PAGES for text in blocks(page, "yaml") if text.startswith("name:")]
    assert len(spaces) >= 3
