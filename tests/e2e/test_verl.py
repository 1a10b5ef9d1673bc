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

MISHAPS = {
    "2e-06": [""],
    "3e-06": ["oom@3"],
    "4e-06": ["nonfinite@3"],
    "5e-06": ["halfway@3", "epochs over"],
    "6e-06": ["hang@3"],
    "7e-06": ["exit@3"],
    "8e-06": ["no file"],
}
"""Learning rate -> what goes wrong, and what after a resume."""
TROUBLE = """
name: in-trouble
trainer:
  backend: verl
  python: {python}
  env: {{CUDA_VISIBLE_DEVICES: "0,1", VERL_MISHAPS: '{mishaps}'}}
  stall: 12s
  overrides:
    trainer.total_steps: 5
    trainer.n_gpus_per_node: 2
    trainer.ppo_micro_batch_size_per_gpu: 4
    trainer.train_batch_size: 256
    model.path: Qwen/Qwen2-7B-Instruct
    trainer.test_freq: 1
    trainer.save_freq: 2
search:
  lr: {{choice: [2.0e-6, 3.0e-6, 4.0e-6, 5.0e-6, 6.0e-6, 7.0e-6, 8.0e-6]}}
sampler: {{name: grid}}
objective: {{metric: eval/reward}}
prune: [not_finite]
retry: {{attempts: 1, on: [crash]}}
budget: {{trials: 7, parallel: 3, steps: 5}}
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return imitation(tmp_path_factory.mktemp("verl"))


@pytest.fixture(scope="module")
def launched(home: Home, python: str) -> dict:
    home.path.mkdir(parents=True, exist_ok=True)
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


@pytest.fixture(scope="module")
def troubled(home: Home, python: str) -> dict[str, dict]:
    """Learning rate -> the trial with it, of one search in which every way to fail occurs."""
    home.path.mkdir(parents=True, exist_ok=True)
    space = TROUBLE.format(python=python, mishaps=json.dumps(MISHAPS))
    (home.path.parent / "trouble.yaml").write_text(space)
    answer = home.run("launch", "trouble.yaml", "--json")
    assert answer.returncode == 0, answer.stderr
    shown = json.loads(home.run("show", "in-trouble-1", "--json").stdout)
    return {f"{trial['params']['trainer.optim.lr']:g}": trial for trial in shown["trials"]}


@pytest.mark.parametrize(
    ("rate", "state", "kind", "words", "attempts", "last"),
    [
        ("2e-06", "completed", None, "", 1, 5),
        ("3e-06", "infeasible", "out_of_memory", "CUDA out of memory", 1, 2),
        ("4e-06", "infeasible", "non_finite", "actor/grad_norm", 1, None),
        ("5e-06", "failed", "unknown", "resumed after step 2 of 5 and ended without training", 2, 2),
        ("6e-06", "failed", "crash", "ended as hung", 2, 2),
        ("7e-06", "failed", "unknown", "exit code 0) after step 2 of 5", 1, 2),
        ("8e-06", "completed", None, "", 1, 5),
    ],
)
def test_in_one_search_every_way_to_fail_is_told_from_the_others(
    troubled: dict, rate: str, state: str, kind: str | None, words: str, attempts: int, last: int | None
):
    trial = troubled[rate]
    error = trial["error"] or {}
    assert (trial["state"], error.get("kind")) == (state, kind), trial
    assert words in error.get("message", "")
    assert trial["attempts"] == attempts
    assert last in (None, trial["last_step"])  # the warning on the console may be read before the step before it


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
