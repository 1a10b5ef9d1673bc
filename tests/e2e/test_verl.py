"""A search with verl's real configuration over a program that behaves like its main, through the real command."""

from __future__ import annotations

import json
import sqlite3

import pytest

from tests.backends.verl_wheel import imitation
from tests.e2e.support import Home

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPACE = """
name: with-verl
trainer:
  backend: verl
  python: {python}
  env: {{CUDA_VISIBLE_DEVICES: "0,1"}}
  overrides:
    trainer.total_steps: 8
    trainer.n_gpus_per_node: 2
    trainer.ppo_micro_batch_size_per_gpu: 4
    trainer.train_batch_size: 256
    model.path: Qwen/Qwen2-7B-Instruct
    trainer.test_freq: 2
search:
  lr: {{float: [1e-7, 1e-5], log: true}}
  kl_coef: {{float: [1e-3, 1e-1], log: true}}
  mini_batch_size: {{choice: [64, 128, 256]}}
objective: {{metric: eval/reward}}
constraints: ["kl/actor_ref <= 0.12"]
prune: [not_finite]
budget: {{trials: 5, parallel: 2, steps: 4}}
start_from:
  - default
  - {{lr: 2e-6, kl_coef: 0.02, mini_batch_size: 64}}
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return imitation(tmp_path_factory.mktemp("verl"))


@pytest.fixture(scope="module")
def launched(home: Home, python: str) -> dict:
    home.path.mkdir(parents=True)
    (home.path.parent / "space.yaml").write_text(SPACE.format(python=python))
    answer = home.run("launch", "space.yaml", "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_every_trial_completes_and_the_better_learning_rate_wins(home: Home, launched: dict):
    assert launched["job"]["trials"]["completed"] == 5
    best = json.loads(home.run("best", "with-verl-1", "--json").stdout)
    assert best["trial"]["params"]["trainer.optim.lr"] == pytest.approx(2e-6, rel=0.8)
    assert best["trial"]["value"] >= best["default"]["value"]


def test_the_curves_are_kept_under_our_names(home: Home, launched: dict):
    with sqlite3.connect(home.path / "autotune.db") as database:
        steps = [row[0] for row in database.execute("select last_step from autotune_trials order by number")]
    assert steps == [4] * 5
    lines = (home.path / "jobs" / "with-verl-1" / "trials" / "0001" / "metrics.jsonl").read_text().splitlines()
    last = [json.loads(line) for line in lines if "metrics" in line][-1]["metrics"]
    assert {"eval/reward", "reward/mean", "kl/actor_ref", "kl/coef", "actor/grad_norm"} <= set(last)
    assert last["kl/coef"] == 0.02


def test_each_trial_has_its_command_line_and_its_own_directories(home: Home, launched: dict):
    trial = home.path / "jobs" / "with-verl-1" / "trials" / "0001"
    own = json.loads((trial / "config.yaml").read_text())["backend"]
    assert {"trainer.total_training_steps=4", "actor_rollout_ref.actor.optim.lr=2e-06"} <= set(own["command"])
    assert f"trainer.default_local_dir={trial}/checkpoints" in own["command"]
    assert any("kl_coef has no effect without" in note for note in own["notes"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("python: ", "python: /no/such", ("no interpreter", "space.yaml:5")),
        ("kl_coef", "vf_coef", ("verl has no 'algorithm.vf_coef'", "critic_lr", "space.yaml:16")),
        ("trainer.test_freq: 2", "critic.vf_coef: 2", ("verl has no 'critic.vf_coef'", "space.yaml:13")),
        ("trainer.train_batch_size: 256", "trainer.train_batch_size: 255", ("255 prompts", "space.yaml:11")),
    ],
)
def test_what_verl_cannot_run_is_refused_with_its_line_and_exit_code_three(home: Home, python: str, old, new, words):
    (home.path.parent / "bad.yaml").write_text(SPACE.format(python=python).replace(old, new))
    answer = home.run("launch", "bad.yaml")
    assert answer.returncode == 3
    assert "Traceback" not in answer.stderr
    for word in words:
        assert word.replace("space.yaml", "bad.yaml") in answer.stderr
