"""Rules about the rollout engine: each refusal names the key, what it got and what would do."""

from __future__ import annotations

import pytest

from trainer.config import ConfigError, build, compose, world_size_problems
from trainer.config.rollout_rules import ENGINE_KEYS
from trainer.config.schema import RolloutConfig

VLLM = {"rollout": "vllm"}


@pytest.mark.parametrize(
    ("overrides", "path", "message"),
    [
        (
            {"rollout.device": "cpu"},
            "rollout.device",
            "rollout.name = hf does not read it (choose the option rollout=vllm",
        ),
        ({"rollout.server_url": "http://h:1"}, "rollout.server_url", "choose the option rollout=sglang"),
        (
            {**VLLM, "model.lora_rank": 513},
            "model.lora_rank",
            "got 513, but rollout.name = vllm, and vLLM knows adapters of rank 1 to 512",
        ),
        ({**VLLM, "rollout.device": "gpu"}, "rollout.device", "got 'gpu', must be auto, cpu, cuda or cuda:<number>"),
        (
            {**VLLM, "system.device": "cpu", "rollout.device": "cuda:0"},
            "rollout.device",
            "got 'cuda:0', but system.device = cpu",
        ),
        (
            {**VLLM, "system.device": "cuda", "rollout.device": "cpu"},
            "rollout.device",
            "got 'cpu', but system.device = cuda",
        ),
        (
            {**VLLM, "model.num_heads": 2, "rollout.tensor_model_parallel_size": 4},
            "rollout.tensor_model_parallel_size",
            "got 4, must divide model.num_heads = 2: each part computes whole attention heads (2 would do)",
        ),
        ({**VLLM, "rollout.tensor_model_parallel_size": 0}, "rollout.tensor_model_parallel_size", "must be >= 1"),
    ],
)
def test_a_contradiction_is_refused(overrides: dict[str, object], path: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(compose(overrides=overrides))
    assert [problem.path for problem in caught.value.problems] == [path]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "ranks", "path", "message"),
    [
        (
            {"rollout.tensor_model_parallel_size": 2},
            1,
            "rollout.tensor_model_parallel_size",
            "got 2, but 1 ranks cannot be split into groups of 2 (use 1, or start a multiple of 2 ranks)",
        ),
        (
            {"rollout.tensor_model_parallel_size": 4, "model.num_heads": 4},
            6,
            "rollout.tensor_model_parallel_size",
            "use 3, or start a multiple of 4 ranks",
        ),
        (
            {"rollout.device": "cuda:0", "trainer.fsdp_config.sharding_strategy": "FULL_SHARD"},
            2,
            "rollout.device",
            "sharding_strategy = FULL_SHARD keeps the weights on cuda:0 to cuda:1",
        ),
        ({"rollout.device": "cuda:1"}, 1, "rollout.device", "keeps the weights on cuda:0, and each rank's engine runs"),
    ],
)
def test_what_the_number_of_ranks_contradicts_is_refused(
    overrides: dict[str, object], ranks: int, path: str, message: str
) -> None:
    sizes = {"trainer.train_batch_size": 12, "trainer.mini_batch_size": 12}
    config = build(compose(overrides={**VLLM, **sizes, **overrides}))
    problems = world_size_problems(config, ranks)
    assert [problem.path for problem in problems] == [path]
    assert message in str(problems[0])


@pytest.mark.parametrize("overrides", [{"rollout.device": "cuda:0"}, {"rollout.device": "cuda"}, {}])
def test_one_rank_may_name_its_gpu(overrides: dict[str, object]) -> None:
    assert world_size_problems(build(compose(overrides={**VLLM, **overrides})), 1) == []


def test_every_engine_of_the_schema_says_which_keys_it_reads() -> None:
    assert tuple(ENGINE_KEYS) == RolloutConfig.__dataclass_fields__["name"].metadata["choices"]
    every = {"name", "temperature", "n", "max_batch_size"}
    named = {key for keys in ENGINE_KEYS.values() for key in keys}
    assert every | named == set(RolloutConfig.__dataclass_fields__)
