"""Composing and checking configurations."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainer.config import ConfigError, build, compose, conf_dir, config_names, flatten, known_keys

ROOT = Path(__file__).resolve().parents[3]
# Options that only work beside others.
TOGETHER: dict[tuple[str, str], dict[str, object]] = {
    ("data", "jsonl"): {"model": "hf"},
    ("data", "parquet"): {"model": "hf"},
    ("algorithm", "dpo"): {"data": "digits_preferences"},
    ("algorithm", "kto"): {"data": "digits_kto"},
    ("data", "digits_preferences"): {"algorithm": "dpo"},
    ("data", "digits_kto"): {"algorithm": "kto"},
    ("data", "jsonl_preferences"): {"algorithm": "dpo", "model": "hf"},
    ("data", "jsonl_kto"): {"algorithm": "kto", "model": "hf"},
    ("data", "parquet_preferences"): {"algorithm": "dpo", "model": "hf"},
    ("data", "parquet_kto"): {"algorithm": "kto", "model": "hf"},
    ("reward", "none"): {"algorithm": "dpo", "data": "digits_preferences"},
}


def problems(config: dict[str, object]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        build(config)
    return {problem.path: str(problem) for problem in caught.value.problems}


def composing_problems(overrides: dict[str, object]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        compose(overrides=overrides)
    return {problem.path: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize("name", config_names())
def test_every_shipped_configuration_is_valid_and_json_safe(name: str) -> None:
    composed = compose(name)
    build(composed)
    assert json.loads(json.dumps(composed)) == composed
    # Components of a reward have names of a person's choice.
    keys = {"reward.components" if key.startswith("reward.components.") else key for key in flatten(composed)}
    assert keys == set(known_keys())


@pytest.mark.parametrize(
    ("group", "option"),
    [(path.parent.name, path.stem) for path in sorted(conf_dir().glob("*/*.yaml"))],
)
def test_every_option_of_every_group_is_valid(group: str, option: str) -> None:
    composed = compose(overrides={group: option, **TOGETHER.get((group, option), {})})
    build(composed)
    # Components of a reward have names of a person's choice.
    keys = {"reward.components" if key.startswith("reward.components.") else key for key in flatten(composed)}
    assert keys == set(known_keys())


def test_every_key_has_a_comment_above_it() -> None:
    bare = []
    for path in sorted(conf_dir().rglob("*.yaml")):
        previous = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.match(r"\s*\w+:\s*\S", line) and not previous.lstrip().startswith("#") and "#" not in line:
                bare.append(f"{path.name}:{number}")
            previous = line
    assert bare == []


def test_a_group_choice_and_a_value_are_applied() -> None:
    composed = compose(overrides={"data": "arithmetic", "trainer.optim.lr": 0.25, "reward": {"name": "exact_match"}})
    flat = flatten(composed)
    assert (flat["data.name"], flat["trainer.optim.lr"], flat["reward.name"]) == ("arithmetic", 0.25, "exact_match")


def test_composing_twice_gives_two_independent_mappings() -> None:
    first = compose()
    first["trainer"]["optim"]["lr"] = 99
    assert compose()["trainer"]["optim"]["lr"] != 99


@pytest.mark.parametrize(
    ("overrides", "path", "words"),
    [
        ({"trainer.optm.lr": 1}, "trainer.optm.lr", "did you mean 'trainer.optim.lr'?"),
        ({"clip_ratoi": 1}, "clip_ratoi", "did you mean 'algorithm.clip_ratio'?"),
        ({"algorithm": "pop"}, "algorithm", "did you mean 'ppo'?"),
        ({"trainer.optim": 3}, "trainer.optim", "is a group of keys"),
        ({"reward.function": "${oc.env:HOME}"}, "reward.function", "interpolation"),
        ({"reward": {"_target_": "os.system"}}, "reward._target_", "not allowed"),
        ({"data.seed": [1, "${x}"]}, "data.seed", "interpolation"),
        ({"data.seed": {1, 2}}, "data.seed", "must be a JSON value"),
    ],
)
def test_what_cannot_be_applied_is_refused(overrides: dict[str, object], path: str, words: str) -> None:
    assert words in composing_problems(overrides)[path]


def test_a_value_with_hydra_grammar_stays_a_value() -> None:
    text = "a,b:[c]{d}=~+'\""
    assert flatten(compose(overrides={"reward.function": text}))["reward.function"] == text


def test_an_unknown_configuration_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'config'"):
        compose("confg")


def test_all_problems_are_reported_at_once() -> None:
    config = copy.deepcopy(compose())
    config["trainer"]["optim"]["lr"] = "fast"
    config["trainer"]["ppo_epochs"] = 1.5
    config["algorithm"]["gamma"] = 1.5
    config["algorithm"]["kl_ctrl"] = 3
    config["model"]["dtype"] = "float23"
    config["debug"] = 1
    config["data"]["sede"] = 1
    del config["data"]["shuffle"]
    found = problems(config)
    assert "must be a number" in found["trainer.optim.lr"]
    assert "must be an integer" in found["trainer.ppo_epochs"]
    assert "must be >= 0 and <= 1" in found["algorithm.gamma"]
    assert "must be a group of keys" in found["algorithm.kl_ctrl"]
    assert "did you mean 'float32'?" in found["model.dtype"]
    assert "must be true or false" in found["debug"]
    assert "did you mean 'data.seed'?" in found["data.sede"]
    assert "missing" in found["data.shuffle"]


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        ({"trainer.mini_batch_size": 48}, "trainer.mini_batch_size"),
        ({"trainer.train_batch_size": 4096, "trainer.mini_batch_size": 4096}, "trainer.train_batch_size"),
        ({"trainer.optim.warmup_steps": 41}, "trainer.optim.warmup_steps"),
        ({"trainer.until_step": 41}, "trainer.until_step"),
        ({"algorithm.kl_ctrl.type": "adaptive", "algorithm.kl_ctrl.target_kl": None}, "algorithm.kl_ctrl.target_kl"),
        ({"algorithm.kl_ctrl.type": "adaptive", "algorithm.kl_ctrl.kl_coef": 0}, "algorithm.kl_ctrl.kl_coef"),
        ({"algorithm.clip_ratio": 1.0}, "algorithm.clip_ratio"),
        ({"algorithm.clip_ratio": 0.2, "algorithm.clip_ratio_high": 0.1}, "algorithm.clip_ratio_high"),
        ({"model.hidden_size": 66}, "model.hidden_size"),
        ({"model.num_layers": None}, "model.num_layers"),
        ({"model.critic_path": "/somewhere"}, "model.critic_path"),
        ({"model.trust_remote_code": True}, "model.trust_remote_code"),
        ({"model.path": "/somewhere"}, "model.path"),
        ({"model": "hf", "model.warm_start.steps": 1}, "model.path"),
        ({"data": "jsonl"}, "model.path"),
        ({"rollout.dtype": "float32"}, "rollout.dtype"),
        ({"rollout": "vllm", "rollout.max_num_batched_tokens": 100}, "rollout.max_num_batched_tokens"),
        ({"rollout.enforce_eager": False}, "rollout.enforce_eager"),
        (
            {
                "rollout": "vllm",
                "rollout.max_batch_size": 2,
                "rollout.max_num_batched_tokens": 18,
                "rollout.enable_chunked_prefill": False,
            },
            "rollout.max_num_batched_tokens",
        ),
        ({"model": "hf", "data": "jsonl", "data.train_file": None}, "data.train_file"),
        ({"model": "hf", "data": "jsonl", "data.eval_size": None}, "data.eval_size"),
        ({"model": "hf", "data": "jsonl", "data.width": 3}, "data.width"),
        ({"data.train_file": "a.jsonl"}, "data.train_file"),
        ({"data.width": None}, "data.width"),
        ({"reward.name": None}, "reward"),
        ({"reward.function": "a:b"}, "reward"),
        ({"reward.name": None, "reward.function": "score"}, "reward.function"),
        ({"reward.eval_name": "exact_match", "reward.eval_function": "a:b"}, "reward"),
        ({"reward.eval_function": "score"}, "reward.eval_function"),
        ({"trainer.optim.lr": float("nan")}, "trainer.optim.lr"),
    ],
)
def test_rules_over_several_keys(overrides: dict[str, object], path: str) -> None:
    assert path in problems(compose(overrides=overrides))


def test_a_config_error_crosses_processes_whole() -> None:
    with pytest.raises(ConfigError) as caught:
        build({})
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems
    assert str(again) == str(caught.value)


def test_importing_the_configuration_is_fast_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; import trainer.config, trainer.record, trainer.cli; "
        "print([m for m in ('torch', 'transformers', 'hydra', 'numpy', 'ray', 'autotune') if m in sys.modules])"
    )
    started = time.process_time()
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert time.process_time() - started < 0.5
