"""Keys that are said to be unread change nothing, and every other test of dead keys turns the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trainer.config import build, compose, flatten, known_keys, unread_keys

OTHER_VALUES: dict[str, object] = {
    "algorithm.lam": 0.3,
    "algorithm.cliprange_value": 0.01,
    "algorithm.vf_coef": 0.9,
    "trainer.optim.critic_lr": 0.2,
}
OF_SAMPLES: dict[str, object] = {
    "algorithm.adv_estimator": "rloo",
    "algorithm.gamma": 0.3,
    "algorithm.whiten_advantages": False,
    "algorithm.clip_ratio": 0.01,
    "algorithm.loss_agg_mode": "seq-mean-token-sum",
    "algorithm.kl_loss_type": "k3",
    "algorithm.kl_ctrl.target_kl": 7.0,
    "algorithm.kl_ctrl.horizon": 3,
}
CHOICES: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "grpo": ({"algorithm": "grpo", "rollout.n": 2}, {**OTHER_VALUES, "algorithm.gamma": 0.3}),
    "dpo": ({"algorithm": "dpo", "data": "digits_preferences"}, {**OTHER_VALUES, **OF_SAMPLES}),
}


@pytest.mark.parametrize("name", CHOICES)
def test_an_unread_key_changes_nothing(tmp_path: Path, run_here: Callable, lines_of: Callable, name: str) -> None:
    given, others = CHOICES[name]
    before = flatten(compose(overrides=given))
    assert set(others) <= set(unread_keys(build(compose(overrides=given))))
    assert all(before[path] != value for path, value in others.items())
    curves = []
    for place, settings in enumerate((given, {**given, **others})):
        assert run_here(tmp_path / str(place), {**settings, "trainer.total_steps": 2}).code == 0
        metrics = [line["metrics"] for line in lines_of(tmp_path / str(place)) if "metrics" in line]
        curves.append([{k: v for k, v in step.items() if not k.startswith("perf/")} for step in metrics])
    assert curves[0] == curves[1]


def test_what_each_algorithm_reads_is_not_called_unread() -> None:
    ppo, grpo, reinforce, dpo = (
        set(unread_keys(build(compose(overrides=choice))))
        for choice in ({}, {"algorithm": "grpo"}, {"algorithm": "reinforce_pp"}, CHOICES["dpo"][0])
    )
    assert {path for path in ppo if not path.startswith("algorithm.preference.")} == set()
    assert grpo - reinforce == {"algorithm.gamma", "reward.normalize"}
    assert not {path for path in dpo if path.startswith(("trainer.optim.lr", "data.", "algorithm.preference.b"))}
    assert "algorithm.preference.desirable_weight" in dpo
    assert ppo | grpo | dpo <= set(known_keys())
