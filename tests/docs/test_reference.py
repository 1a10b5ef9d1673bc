import importlib.util

import pytest

from tests.docs.reading import ROOT

GENERATOR = ROOT / "docs" / "reference" / "generate.py"


@pytest.fixture(scope="module")
def made():
    spec = importlib.util.spec_from_file_location("generate_reference", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


def test_the_committed_reference_is_what_the_code_says(made):
    for name, text in made.items():
        committed = GENERATOR.with_name(name).read_text()
        assert committed == text, f"{name} is out of date; write it again with: python docs/reference/generate.py"


def test_the_reference_names_what_there_is(made):
    assert "`autotune export JOB`" in made["cli.md"]
    assert "`algorithm.kl_ctrl.target_kl`" in made["configuration.md"]
    assert "`GET /v1/jobs/{job_id}/best`" in made["rest.md"]
    assert "`AUTOTUNE_HOME`" in made["environment.md"]
    assert "`kl/actor_ref`" in made["metrics.md"]
    assert "### `kl_ceiling`" in made["space-file.md"]
    assert "| 3 | `invalid_space` |" in made["exit-codes.md"]


def test_every_page_of_the_reference_is_generated(made):
    assert {file.name for file in GENERATOR.parent.iterdir() if file.suffix in (".md", ".json")} == set(made)
