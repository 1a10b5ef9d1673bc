"""Reward models and weighted sums: the right logits in the right order, reported by name, refused with a reason."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from trainer.config import ComponentConfig, ConfigError, RewardConfig, build, compose
from trainer.data import Example
from trainer.failures import DataError, NonFiniteError
from trainer.rewards import REWARDS, component_names, load_reward, score_rows
from trainer.rewards.model import ModelReward

Classifier = Callable[..., Path]
PROMPTS, RESPONSES = ("12:", "345:", "6:", "7:", "89:"), ("abcdef", "", "a", "0123456789", "xyz")
EXAMPLES = [Example(index=index, prompt=prompt, ground_truth="") for index, prompt in enumerate(PROMPTS)]


def settings(**changes: object) -> RewardConfig:
    usual = build(compose()).reward
    of_model = {key.removeprefix("model_"): value for key, value in changes.items() if key.startswith("model_")}
    others = {key: value for key, value in changes.items() if not key.startswith("model_")}
    return dataclasses.replace(usual, name=None, model=dataclasses.replace(usual.model, **of_model), **others)


def loaded(path: Path, **changes: object) -> ModelReward:
    reward = load_reward(settings(model_path=str(path), **changes), REWARDS)
    assert isinstance(reward, ModelReward)
    return reward


@pytest.mark.parametrize("form", ["joined", "pair", "response"])
@pytest.mark.parametrize("size", [1, 2, 8])
def test_each_response_gets_its_logit_in_order_whatever_the_batch(classifier: Classifier, form: str, size: int) -> None:
    reward = loaded(classifier(labels=3), model_label=2, model_input=form, model_batch_size=size)
    wanted = []
    for prompt, response in zip(PROMPTS, RESPONSES, strict=True):
        texts = {"joined": ([prompt + response],), "pair": ([prompt], [response]), "response": ([response],)}[form]
        wanted.append(float(reward.model(**reward.tokenizer(*texts, return_tensors="pt")).logits[0, 2]))
    assert reward.all(EXAMPLES, RESPONSES) == pytest.approx(wanted, abs=1e-5)
    assert max(wanted) - min(wanted) > 0.1
    assert not any(parameter.requires_grad for parameter in reward.model.parameters())


def test_of_a_long_text_the_end_is_read(classifier: Classifier) -> None:
    reward = loaded(classifier(), model_max_length=6)
    ends = [Example(index=0, prompt=prompt, ground_truth="") for prompt in ("0000000000", "9", "")]
    long, short, alone = reward.all(ends, ["abcd", "abcd", "abcd"])
    assert long == pytest.approx(alone, abs=1e-5)
    assert short == pytest.approx(alone, abs=1e-5)
    assert loaded(reward.model.name_or_path).max_length == 64


def test_a_decoder_without_a_padding_token_reads_batches_too(hf_model: Callable[..., Path]) -> None:
    from transformers import LlamaConfig, LlamaForSequenceClassification

    path = hf_model()
    tokenizer = path / "tokenizer_config.json"
    tokenizer.write_text(tokenizer.read_text().replace('"pad_token": "<|pad|>"', '"pad_token": null'))
    shape = LlamaConfig.from_pretrained(path, num_labels=1, pad_token_id=None)
    LlamaForSequenceClassification(shape).save_pretrained(path)
    alone, together = loaded(path, model_batch_size=1), loaded(path, model_batch_size=8)
    torch.nn.init.normal_(together.model.score.weight)
    alone.model.load_state_dict(together.model.state_dict())
    assert together.all(EXAMPLES, RESPONSES) == pytest.approx(alone.all(EXAMPLES, RESPONSES), abs=1e-4)


def refused(path: Path | str, **changes: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load_reward(settings(model_path=str(path), **changes), REWARDS)
    return str(caught.value)


def test_a_model_that_cannot_be_used_is_refused_with_the_reason(classifier: Classifier, tmp_path: Path) -> None:
    assert "reward.model.path: there is no model directory" in refused(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "holds no config.json" in refused(tmp_path / "empty")
    text = refused(classifier(head=False))
    assert "holds no weights for classifier.bias, classifier.weight" in text
    assert "they would be random" in text
    assert "reward.model.label: is null, but" in refused(classifier(labels=3))
    assert re.search(
        r"got 3, but .* has 3 labels \(0 = LABEL_0, .*use 0 to 2", refused(classifier(labels=3), model_label=3)
    )
    assert "reward.model.max_length: got 65, but" in refused(classifier(places=64), model_max_length=65)
    assert "reward.model.device: got 'cuda', but the run is on a CPU" in refused(classifier(), model_device="cuda")
    assert "reward.model.trust_remote_code=true" in refused(classifier(own_code=True))


def test_weights_that_are_not_finite_are_named_with_the_response(classifier: Classifier) -> None:
    path = classifier()
    weights = load_file(path / "model.safetensors")
    weights["classifier.bias"] = torch.full_like(weights["classifier.bias"], float("nan"))
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        NonFiniteError, match="the reward model answers nan for the prompt '12:' and the response 'abcdef'"
    ):
        loaded(path).all(EXAMPLES, RESPONSES)


def part(**values: object) -> ComponentConfig:
    usual = {"weight": 1.0, "name": None, "function": None, "model": None, "label": None}
    return ComponentConfig(**{**usual, **values})


def test_a_sum_weighs_its_components_and_keeps_each(classifier: Classifier, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "own_sum.py").write_text("def length(response): return len(response)\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = str(classifier(labels=2))
    parts = {
        "liked": part(weight=2.0, model=path, label=1),
        "length": part(weight=-0.5, function="own_sum:length"),
        "exact": part(weight=0.0, name="exact_match"),
    }
    reward = load_reward(settings(components=parts), REWARDS)
    assert component_names(reward) == ("liked", "length", "exact")
    liked = loaded(Path(path), model_label=1).all(EXAMPLES, RESPONSES)
    for row, logit, response in zip(score_rows(reward, EXAMPLES, RESPONSES), liked, RESPONSES, strict=True):
        total, *values = row
        assert values == [pytest.approx(logit, abs=1e-5), len(response), float(response == "")]
        assert total == pytest.approx(2 * logit - 0.5 * len(response), abs=1e-5)
    assert reward.all(EXAMPLES, RESPONSES) == [row[0] for row in score_rows(reward, EXAMPLES, RESPONSES)]


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("return float('nan')", NonFiniteError, r"reward\.components\.odd: the reward is nan"),
        ("return 1 / 0", DataError, r"reward\.components\.odd: the reward function 'score' failed"),
        (
            "import threading; threading.Event().wait()",
            DataError,
            r"reward\.components\.odd: .* took longer than 0\.05 s",
        ),
    ],
)
def test_the_component_that_fails_is_named(
    body: str, error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"odd_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(f"def score(response): {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    parts = {"fine": part(name="exact_match"), "odd": part(function=f"{name}:score")}
    reward = load_reward(settings(components=parts, timeout_s=0.05), REWARDS)
    with pytest.raises(error, match=message):
        reward.all(EXAMPLES, RESPONSES)


def test_a_component_that_cannot_be_loaded_is_named() -> None:
    with pytest.raises(ConfigError, match=r"reward\.components\.odd\.function: cannot load 'no_such:score'"):
        load_reward(settings(components={"odd": part(function="no_such:score")}), REWARDS)
    with pytest.raises(ConfigError, match=r"reward\.components\.odd\.model: there is no model directory './none'"):
        load_reward(settings(components={"odd": part(model="./none")}), REWARDS)


def test_a_run_trains_on_the_sum_and_reports_each_component(
    tmp_path: Path, run_here: Callable, lines_of: Callable, classifier: Classifier
) -> None:
    overrides = {
        "reward.name": None,
        "reward.components": {
            "liked": {"model": str(classifier()), "weight": 0.1},
            "prefix": {"name": "prefix_match", "weight": 0.9},
        },
        "trainer.total_steps": 2,
    }
    ended = run_here(tmp_path, overrides)
    assert ended.code == 0, ended.stderr
    steps = [line["metrics"] for line in lines_of(tmp_path) if "metrics" in line]
    for metrics in steps:
        assert metrics["eval/reward"] == pytest.approx(
            0.1 * metrics["eval/liked"] + 0.9 * metrics["eval/prefix"], abs=1e-5
        )
    for metrics in steps[1:]:
        total = 0.1 * metrics["reward/liked"] + 0.9 * metrics["reward/prefix"]
        assert metrics["reward/mean"] == pytest.approx(total, abs=1e-5)
    assert len({metrics["eval/liked"] for metrics in steps} | {steps[1]["reward/liked"]}) > 1


def test_names_of_components_are_checked() -> None:
    overrides = {
        "reward.name": None,
        "reward.components": {"mean": {"name": "gsm8k"}, "Odd": {}, "two": {"name": "gsm8k"}},
    }
    overrides["reward.components.two.function"] = "nowhere"
    overrides["reward.components.two.label"] = 1
    with pytest.raises(ConfigError) as caught:
        build(compose(overrides=overrides))
    text = str(caught.value)
    assert "reward.components.mean: got the name 'mean': reward/mean or eval/mean is another metric" in text
    assert "reward.components.Odd: got the name 'Odd'" in text
    assert "reward.components.two: got name = 'gsm8k', function = 'nowhere', model = None: exactly one" in text
    assert "reward.components.two.function: got 'nowhere', must be 'module:function'" in text
    assert "reward.components.two.label: got 1, but the component is no model" in text
    with pytest.raises(ConfigError, match=r"did you mean 'reward\.components\.two\.weight'"):
        build(compose(overrides={"reward.components.two.wieght": 1}))
    with pytest.raises(ConfigError, match=r"reward\.components: got 3, must be names with a group each"):
        build({**compose(), "reward": {**compose()["reward"], "components": 3}})


def test_a_component_is_taken_out_with_null() -> None:
    composed = build(compose(overrides={"reward": "weighted", "reward.components.partial": None}))
    assert list(composed.reward.components) == ["exact"]
