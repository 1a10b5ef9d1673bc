"""A secret in a space is refused before anything of it is stored, and is not repeated by who refuses it."""

from __future__ import annotations

import pytest

from autotune.errors import InvalidSpaceError
from autotune.service.service import Service

COMMAND = """
name: small
trainer:
  backend: command
  command: [python3, -c, "pass", "--lr={lr}"]
  steps: 4
  parameters: {lr: 0.1}
  metrics: {read: jsonl, names: [loss]}
  env: {%s}
search: {lr: {float: [0.1, 1.0]}}
objective: {metric: loss, direction: minimize}
budget: {trials: 2, steps: 4}
"""
SECRET = "s3cr3tvalue0123456789"


@pytest.mark.parametrize(
    ("env", "path"),
    [
        (f"WANDB_API_KEY: {SECRET}", "trainer.env.WANDB_API_KEY"),
        (f"HF_TOKEN: {SECRET}", "trainer.env.HF_TOKEN"),
        (f"DB_PASSWORD: {SECRET}", "trainer.env.DB_PASSWORD"),
        (f'WHERE: "postgresql://me:{SECRET}@host/db"', "trainer.env.WHERE"),
        (f'HEADER: "Bearer {SECRET}"', "trainer.env.HEADER"),
        (f"ANY: hf_{SECRET}", "trainer.env.ANY"),
    ],
)
def test_a_secret_is_refused_and_stored_nowhere(service: Service, env: str, path: str) -> None:
    for attempt in (service.submit, service.plan):
        with pytest.raises(InvalidSpaceError) as caught:
            attempt(COMMAND % env, "space.yaml")
        assert [problem.path for problem in caught.value.problems] == [path]
        assert SECRET not in str(caught.value) + repr(caught.value.problems) + caught.value.hint
        assert "export it there" in caught.value.hint
    assert service.jobs().items == []
    assert not any(SECRET.encode() in file.read_bytes() for file in service.settings.home.rglob("*") if file.is_file())


def test_a_secret_in_a_comment_is_found_by_its_line(service: Service) -> None:
    with pytest.raises(InvalidSpaceError, match="line 2 looks like a secret") as caught:
        service.submit(f"# from\n# https://me:{SECRET}@host/\n" + COMMAND % "A: b", "space.yaml")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "env", ["MAX_TOKENS: '512'", 'API_KEY: "{lr}"', "TOKENIZER: fast", 'NOTE: "the secret: little KL"', "SECRET: ''"]
)
def test_what_is_no_secret_passes(service: Service, env: str) -> None:
    assert service.submit(COMMAND % env, "space.yaml")[1]
