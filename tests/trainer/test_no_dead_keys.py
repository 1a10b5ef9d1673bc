"""No key may exist that nothing reads: each is turned, and the run's behaviour or its refusal must change."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import register_module_forward_hook

from trainer.config import ConfigError, build, flatten, known_keys
from trainer.failures import TrainerError
from trainer.loop import ppo_mathematics, run_session
from trainer.signals import StopFlag


@dataclass(frozen=True)
class Turn:
    """What to set a key to, and what else must be set (in both runs) for it to matter."""

    value: object
    given: dict[str, object] = field(default_factory=dict)


ADAPTIVE = {"algorithm.kl_ctrl.type": "adaptive", "algorithm.kl_ctrl.horizon": 100}
CUT = {"data.max_response_length": 3}
MODEL = {"reward.name": None, "reward.model.path": "CLASSIFIER"}
DPO = {"algorithm": "dpo", "data": "digits_preferences"}
KTO = {"algorithm": "kto", "data": "digits_kto"}
TURNS: dict[str, Turn] = {
    "debug": Turn(True),
    "algorithm.name": Turn("kto", DPO),
    "algorithm.preference.beta": Turn(0.5, DPO),
    "algorithm.preference.loss_type": Turn("ipo", DPO),
    "algorithm.preference.label_smoothing": Turn(0.2, DPO),
    "algorithm.preference.length_normalization": Turn(True, DPO),
    "algorithm.preference.desirable_weight": Turn(2.0, KTO),
    "algorithm.preference.undesirable_weight": Turn(2.0, KTO),
    "algorithm.adv_estimator": Turn("rloo", {"rollout.n": 2}),
    "algorithm.gamma": Turn(0.5),
    "algorithm.lam": Turn(0.1),
    "algorithm.whiten_advantages": Turn(False),
    "algorithm.truncation": Turn("mask", CUT),
    "algorithm.truncation_penalty": Turn(1.0, CUT),
    "algorithm.overlong_buffer": Turn(3, {"algorithm.truncation_penalty": 1.0}),
    "algorithm.clip_ratio": Turn(0.001, {"trainer.ppo_epochs": 3}),
    "algorithm.clip_ratio_high": Turn(0.9, {"algorithm.clip_ratio": 0.001, "trainer.ppo_epochs": 3}),
    "algorithm.clip_ratio_c": Turn(1.0011, {"algorithm.clip_ratio": 0.001, "trainer.ppo_epochs": 3}),
    "algorithm.rollout_is_threshold": Turn(0.5),
    "algorithm.loss_agg_mode": Turn("seq-mean-token-sum"),
    "algorithm.cliprange_value": Turn(1e-5, {"trainer.ppo_epochs": 4}),
    "algorithm.vf_coef": Turn(1.0),
    "algorithm.entropy_coeff": Turn(0.1),
    "algorithm.kl_loss_coef": Turn(1.0),
    "algorithm.kl_loss_type": Turn("k3", {"algorithm.kl_loss_coef": 1.0, "trainer.ppo_epochs": 3}),
    "algorithm.kl_ctrl.type": Turn("adaptive"),
    "algorithm.kl_ctrl.kl_coef": Turn(5.0),
    "algorithm.kl_ctrl.target_kl": Turn(1e-6, {**ADAPTIVE, "trainer.optim.lr": 1e-2, "trainer.total_steps": 4}),
    "algorithm.kl_ctrl.horizon": Turn(10, ADAPTIVE),
    "model.path": Turn("none such"),
    "model.critic_path": Turn("somewhere"),
    "model.trust_remote_code": Turn(True),
    "model.lora_rank": Turn(2),
    "model.lora_alpha": Turn(64, {"model.lora_rank": 2}),
    "model.hidden_size": Turn(24),
    "model.intermediate_size": Turn(48),
    "model.num_layers": Turn(2),
    "model.num_heads": Turn(1),
    "model.dtype": Turn("bfloat16"),
    "model.enable_gradient_checkpointing": Turn(True),
    "model.warm_start.steps": Turn(11),
    "model.warm_start.batch_size": Turn(17),
    "model.warm_start.lr": Turn(1e-2),
    "model.warm_start.slip_fraction": Turn(0.1),
    "model.warm_start.seed": Turn(1),
    "rollout.name": Turn("none such"),
    "rollout.temperature": Turn(0.5),
    "rollout.n": Turn(2),
    "rollout.max_batch_size": Turn(3),
    "rollout.dtype": Turn("bfloat16"),
    "rollout.device": Turn("cpu"),
    "rollout.tensor_model_parallel_size": Turn(2),
    "rollout.gpu_memory_utilization": Turn(0.5),
    "rollout.max_num_batched_tokens": Turn(4096),
    "rollout.enable_chunked_prefill": Turn(True),
    "rollout.enable_prefix_caching": Turn(True),
    "rollout.enforce_eager": Turn(True),
    "rollout.enable_sleep_mode": Turn(True),
    "rollout.sync_tolerance": Turn(0.1),
    "rollout.server_url": Turn("http://127.0.0.1:30000"),
    "rollout.server_timeout_s": Turn(60.0),
    "rollout.sync_dir": Turn("somewhere"),
    "trainer.total_steps": Turn(3),
    "trainer.num_epochs": Turn(1, {"data.train_size": 8}),
    "trainer.until_step": Turn(1),
    "trainer.train_batch_size": Turn(16),
    "trainer.mini_batch_size": Turn(8),
    "trainer.ppo_epochs": Turn(2),
    "trainer.critic_warmup": Turn(1),
    "trainer.ppo_micro_batch_size_per_gpu": Turn(2),
    "trainer.use_dynamic_bsz": Turn(True, {"trainer.ppo_max_token_len_per_gpu": 18}),
    "trainer.ppo_max_token_len_per_gpu": Turn(18, {"trainer.use_dynamic_bsz": True}),
    "trainer.use_remove_padding": Turn(True),
    "trainer.grad_clip": Turn(1e-7),
    "trainer.optim.lr": Turn(1e-2),
    "trainer.optim.critic_lr": Turn(1e-1),
    "trainer.optim.weight_decay": Turn(5.0),
    "trainer.optim.eps": Turn(1e-2),
    "trainer.optim.warmup_steps": Turn(2),
    "trainer.optim.scheduler": Turn("cosine", {"trainer.total_steps": 4}),
    "trainer.fsdp_config.sharding_strategy": Turn("FULL_SHARD"),
    "trainer.fsdp_config.shard_group_size": Turn(2, {"trainer.fsdp_config.sharding_strategy": "HYBRID_SHARD"}),
    "trainer.fsdp_config.cpu_offload": Turn(True),
    "trainer.save_freq": Turn(1),
    "trainer.max_checkpoints": Turn(1, {"trainer.save_freq": 1}),
    "trainer.save_best": Turn("response/length_mean"),
    "trainer.save_best_mode": Turn(
        "min", {"trainer.save_best": "actor/lr", "trainer.optim.warmup_steps": 2, "trainer.max_checkpoints": 1}
    ),
    "trainer.test_freq": Turn(0),
    "trainer.eval_samples": Turn(2),
    "trainer.seed": Turn(1),
    "reward.name": Turn("exact_match"),
    "reward.function": Turn("json:dumps"),
    "reward.eval_name": Turn("exact_match", {"model.warm_start.steps": 100}),
    "reward.eval_function": Turn("trainer.rewards:exact_match", {"model.warm_start.steps": 100}),
    "reward.model.path": Turn("CLASSIFIER", {"reward.name": None, "reward.function": "trainer.rewards:exact_match"}),
    "reward.model.label": Turn(1, MODEL),
    "reward.model.input": Turn("pair", MODEL),
    "reward.model.batch_size": Turn(1, MODEL),
    "reward.model.max_length": Turn(3, MODEL),
    "reward.model.dtype": Turn("bfloat16", MODEL),
    "reward.model.device": Turn("cpu" if torch.cuda.is_available() else "cuda", MODEL),
    "reward.model.trust_remote_code": Turn(False, {**MODEL, "reward.model.trust_remote_code": True}),
    "reward.components": Turn({"exact": {"name": "exact_match"}}),
    "reward.normalize": Turn("scale"),
    "reward.timeout_s": Turn(1e-9, {"reward.name": None, "reward.function": "trainer.rewards:prefix_match"}),
    "data.name": Turn("arithmetic", {"data.width": 2, "data.max_prompt_length": 6}),
    "data.kind": Turn("pairs", KTO),
    "data.overlong": Turn("drop", {**DPO, "data.overlong": "truncate", "data.width": 5, "data.max_prompt_length": 6}),
    "data.width": Turn(2),
    "data.train_file": Turn("rows.jsonl"),
    "data.eval_file": Turn("rows.jsonl"),
    "data.train_size": Turn(32),
    "data.eval_size": Turn(7),
    "data.max_prompt_length": Turn(3),
    "data.max_response_length": Turn(3),
    "data.shuffle": Turn(False),
    "data.seed": Turn(1),
    "system.device": Turn("cpu" if torch.cuda.is_available() else "cuda"),
    "system.num_threads": Turn(2),
    "system.determinism": Turn(False),
    "system.distributed.master_port": Turn("a port that is taken"),
    "system.distributed.timeout_s": Turn(77),
    "system.logging.progress_freq": Turn(1),
    "system.profile.steps": Turn(1),
    "system.profile.first_step": Turn(1, {"system.profile.steps": 1}),
    "system.profile.rows": Turn(3, {"system.profile.steps": 1}),
}


def behaviour(directory: Path, config: Mapping[str, object], stderr: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Everything that one can see of a run, durations left out; or how it was refused."""
    seen: dict[str, Any] = {"forwards": {}}
    blocks: list[torch.nn.Module] = []

    def count(module: torch.nn.Module, inputs: object, output: object) -> None:
        del inputs
        name = type(module).__name__
        if "LlamaDecoderLayer" in name:
            blocks.append(module)
            states = output[0] if isinstance(output, tuple) else output
            seen.setdefault("rows and places", set()).add(tuple(states.shape[:2]))
        if "Bert" in name and isinstance(output, torch.Tensor):
            seen["texts"] = len(output)
        if "Llama" in name:
            seen["forwards"][name] = seen["forwards"].get(name, 0) + 1

    flat = flatten(config)
    right = ppo_mathematics(flat["algorithm.adv_estimator"], group_size=flat["rollout.n"])

    def look(*arguments: torch.Tensor, **options: object) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        if not hooks:  # from the first update on, so that building and warming up the model is not counted
            hooks.append(register_module_forward_hook(count))
        seen["threads"] = torch.get_num_threads()
        seen["deterministic"] = torch.are_deterministic_algorithms_enabled()
        seen["sharded"] = bool(blocks) and isinstance(next(blocks[-1].parameters()), DTensor)
        seen["micro-batch"] = len(arguments[0])
        backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
        seen["timeout"] = str(backend.options._timeout)
        return right.policy_loss(*arguments, **options)

    stderr.readouterr()
    directory.mkdir()
    hooks = []
    try:
        built = build(config)
        result = run_session(built, directory, StopFlag(), mathematics=dataclasses.replace(right, policy_loss=look))
    except (ConfigError, OSError, RuntimeError, TrainerError) as error:
        return {"refused": str(error)}
    finally:
        for hook in hooks:
            hook.remove()
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    seen["curves"] = [
        (line["step"], {name: value for name, value in line["metrics"].items() if not name.startswith("perf/")})
        for line in lines
        if "metrics" in line
    ]
    seen["end"] = (result.status, result.last_step)
    seen["checkpoints"] = sorted(path.name for path in (directory / "checkpoints").iterdir())
    seen["samples"] = (directory / "samples.jsonl").read_text().splitlines()
    seen["profile"] = sorted(path.name for path in directory.glob("profile/*"))
    seen["said"] = len(stderr.readouterr().err.splitlines())
    return seen


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_every_key_is_turned() -> None:
    assert sorted(TURNS) == sorted(known_keys())


def test_the_same_configuration_behaves_the_same(
    tmp_path: Path, quick, one_thread: None, capsys: pytest.CaptureFixture[str]
) -> None:
    config = quick({"trainer.total_steps": 2})
    assert behaviour(tmp_path / "a", config, capsys) == behaviour(tmp_path / "b", config, capsys)


@pytest.fixture(scope="module")
def own_classifier(classifier) -> str:
    return str(classifier(own_code=True))


@pytest.mark.parametrize("key", list(TURNS))
def test_turning_a_key_changes_the_run(
    tmp_path: Path,
    quick,
    one_thread: None,
    capsys: pytest.CaptureFixture[str],
    key: str,
    taken_port: int,
    own_classifier: str,
) -> None:
    turn = TURNS[key]
    given = {"trainer.total_steps": 2, **turn.given}
    if given.get("reward.model.path") == "CLASSIFIER":
        given |= {"reward.model.trust_remote_code": True, "reward.model.path": own_classifier}
    value = {"a port that is taken": taken_port, "CLASSIFIER": own_classifier}.get(str(turn.value), turn.value)
    before = quick(given)
    assert flatten(before)[key] != value
    after = quick({**given, key: value})
    usual = behaviour(tmp_path / "before", before, capsys)
    assert "refused" not in usual, usual
    assert behaviour(tmp_path / "after", after, capsys) != usual
