import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.preflight.memory import (
    GIB,
    Capacity,
    Engine,
    ModelShape,
    Sharding,
    Workload,
    estimate,
    find_model,
    native_workload,
    shape_of,
    too_large,
    verl_workload,
)
from autotune.preflight.memory.estimate import PHASES, RUNTIME
from benchmarks.published_memory import published
from trainer.config import compose, flatten

ROOT = Path(__file__).parents[2]
SHAPE = ModelShape(layers=4, hidden=64, inner=256, heads=4, query=64, key_value=32, vocab=1000, tied=False)
WORK = Workload(
    actor=SHAPE,
    critic=SHAPE,
    reference=True,
    world=4,
    shards=4,
    sharding=Sharding.GRAD_OP,
    master_bytes=4,
    frozen_bytes=4,
    compute_bytes=2,
    lora_rank=0,
    offload_state=False,
    checkpointing=False,
    rows=8,
    accumulates=True,
    length=64,
    measured_rows=8,
    logit_places=32,
    logit_bytes=2,
    logit_chunk=2**24,
    padded=True,
    engine=Engine(copy_bytes=4, cache_rows=8, cache_length=64, cache_bytes=4),
    host=False,
)


def config(**overrides):
    return flatten(compose("config", {key.replace("__", "."): value for key, value in overrides.items()}))


@pytest.mark.parametrize(
    ("read", "parameters"),
    [
        # Counts as their authors state them.
        (
            {
                "model_type": "qwen2",
                "hidden_size": 896,
                "intermediate_size": 4864,
                "num_hidden_layers": 24,
                "num_attention_heads": 14,
                "num_key_value_heads": 2,
                "vocab_size": 151936,
                "tie_word_embeddings": True,
            },
            494_032_768,
        ),
        (
            {
                "model_type": "llama",
                "hidden_size": 4096,
                "intermediate_size": 14336,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "vocab_size": 128256,
                "tie_word_embeddings": False,
            },
            8_030_261_248,
        ),
        (
            {
                "model_type": "gpt2",
                "n_embd": 768,
                "n_layer": 12,
                "n_head": 12,
                "vocab_size": 50257,
                "n_positions": 1024,
            },
            124_439_808,
        ),
        (
            {
                "model_type": "mixtral",
                "hidden_size": 4096,
                "intermediate_size": 14336,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "vocab_size": 32000,
                "num_local_experts": 8,
                "num_experts_per_tok": 2,
                "tie_word_embeddings": False,
            },
            46_702_792_704,
        ),
    ],
)
def test_parameters_are_counted_from_config_json(read, parameters):
    shape = shape_of(read)
    assert shape.parameters == pytest.approx(parameters, rel=0.001)


def test_the_text_part_of_a_multimodal_model_is_what_counts():
    text = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    assert shape_of({"model_type": "some_vl", "text_config": text}) == shape_of(text)


def test_a_config_without_sizes_is_no_shape():
    assert shape_of({"model_type": "bert", "hidden_size": 64}) is None


def test_published_peaks_are_met_within_a_tenth():
    errors = {case.name: case.estimate / case.measured - 1 for case in published()}
    assert len(errors) >= 3
    assert {name: error for name, error in errors.items() if abs(error) > 0.1} == {}


def tracked(overrides):
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "tracked_memory.py"), json.dumps(overrides)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])["peak"]


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_real_run_peaks_where_the_estimate_says(checkpointing):
    overrides = {
        "trainer.total_steps": 2,
        "trainer.test_freq": 0,
        "model.warm_start.steps": 0,
        "model.hidden_size": 192,
        "model.intermediate_size": 512,
        "model.enable_gradient_checkpointing": checkpointing,
        # The model never ends a response, so every place is used.
        "data.width": 9,
        "data.max_prompt_length": 10,
        "data.max_response_length": 14,
        "data.eval_size": 8,
        "trainer.train_batch_size": 64,
        "trainer.mini_batch_size": 64,
        "system.logging.progress_freq": 0,
    }
    found = estimate(native_workload(flatten(compose("config", overrides)), world=1, host=True))
    tensors = found.peak - sum(part.bytes for part in found.parts if part.name == RUNTIME)
    assert tensors == pytest.approx(tracked(overrides), rel=0.15)


def test_the_peak_is_the_sum_of_its_parts():
    found = estimate(WORK)
    assert found.peak == sum(part.bytes for part in found.largest) == max(found.of(phase) for phase in PHASES)


@given(st.integers(1, 64), st.integers(1, 64))
def test_more_sequences_never_need_less(rows, more):
    less = estimate(replace(WORK, rows=rows, measured_rows=rows))
    assert estimate(replace(WORK, rows=rows + more, measured_rows=rows + more)).peak >= less.peak


@pytest.mark.parametrize(
    "cheaper",
    [
        {"checkpointing": True},
        {"sharding": Sharding.FULL},
        {"lora_rank": 4, "reference": False},
        {"critic": None},
        {"offload_state": True},
        {"rows": 1, "measured_rows": 1},
        {"world": 8, "shards": 8},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_what_saves_memory_lowers_the_estimate(cheaper):
    many = replace(WORK, actor=replace(SHAPE, layers=40), critic=replace(SHAPE, layers=40))
    changes = {**cheaper}
    assert estimate(replace(many, **changes)).peak < estimate(many).peak


def test_an_engine_that_sleeps_leaves_the_update_alone():
    awake = replace(WORK, engine=Engine(copy_bytes=2, utilization=0.5))
    asleep = replace(awake, engine=replace(awake.engine, stays=False))
    room = 80 * GIB
    assert estimate(awake, room).of("actor update") - estimate(asleep, room).of("actor update") == room // 2
    assert estimate(awake, room).of("rollout") == estimate(asleep, room).of("rollout")


def test_every_sharding_strategy_of_the_trainer_is_known():
    for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "NO_SHARD"):
        work = native_workload(config(trainer__fsdp_config__sharding_strategy=strategy), world=4, host=False)
        assert work.shards == (1 if strategy == "NO_SHARD" else 4)


def test_a_model_directory_is_read_and_one_that_is_absent_is_unknown(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100})
    )
    assert find_model(str(tmp_path)).shape.layers == 2
    assert native_workload({"model.path": "nobody/nothing"}, world=1, host=False) is None
    assert "neither a directory" in find_model("nobody/nothing").missing


def test_a_model_in_the_hugging_face_cache_is_found(tmp_path, monkeypatch):
    root = tmp_path / "models--some--model"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text("abc")
    (root / "snapshots" / "abc").mkdir(parents=True)
    (root / "snapshots" / "abc" / "config.json").write_text(
        json.dumps({"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100})
    )
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert find_model("some/model").shape.hidden == 64


def verl_tree(directory, **changes):
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    return {
        "actor_rollout_ref.model.path": str(directory),
        "critic.model.path": str(directory),
        "actor_rollout_ref.model.use_remove_padding": True,
        "actor_rollout_ref.model.enable_gradient_checkpointing": True,
        f"{actor}.strategy": "fsdp2",
        f"{actor}.ppo_micro_batch_size_per_gpu": 4,
        f"{actor}.ppo_mini_batch_size": 64,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": 8,
        f"{rollout}.gpu_memory_utilization": 0.5,
        f"{rollout}.free_cache_engine": True,
        "data.max_prompt_length": 512,
        "data.max_response_length": 512,
        "algorithm.adv_estimator": "gae",
        "algorithm.use_kl_in_reward": True,
        "trainer.n_gpus_per_node": 2,
        "trainer.nnodes": 1,
        **changes,
    }


def test_a_run_of_verl_is_estimated_from_its_own_tree(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "vocab_size": 151936})
    )
    work = verl_workload(verl_tree(tmp_path))
    assert (work.world, work.shards, work.rows, work.measured_rows, work.reference) == (2, 2, 4, 8, True)
    without = verl_workload(verl_tree(tmp_path, **{"algorithm.use_kl_in_reward": False}))
    assert estimate(without).peak < estimate(work).peak
    assert verl_workload(verl_tree(tmp_path, **{"actor_rollout_ref.actor.strategy": "megatron"})) is None


def test_a_trial_that_cannot_fit_is_refused_with_its_parts_and_a_cure():
    found = estimate(replace(WORK, rows=200_000, measured_rows=1))
    problem = too_large(found, Capacity(bytes=GIB, host=False, source="test"))
    assert "GiB on one GPU in the actor update (activations " in problem.message
    assert "there are 1.0 GiB (test)" in problem.message
    assert problem.path == "trainer.ppo_micro_batch_size_per_gpu"
    assert problem.hint.startswith("Lower it")


def test_networks_that_are_too_large_alone_are_not_blamed_on_the_engine():
    wide = replace(SHAPE, layers=400, hidden=2048, inner=8192, query=2048, key_value=2048)
    found = estimate(replace(WORK, actor=wide, critic=wide, engine=Engine(copy_bytes=2, utilization=0.5)), 8 * GIB)
    problem = too_large(found, Capacity(bytes=8 * GIB, host=False, source="test"))
    assert problem.path == "model.lora_rank"
    assert "cpu_offload" in problem.hint


def test_what_may_fit_within_the_error_of_the_estimate_is_let_through():
    found = estimate(WORK)
    assert too_large(found, Capacity(bytes=int(found.peak * 0.9), host=False, source="test")) is None
    assert too_large(found, Capacity(bytes=int(found.peak * 0.8), host=False, source="test")) is not None


def test_nobody_is_refused_when_the_memory_is_unknown():
    assert too_large(estimate(WORK), Capacity(bytes=None, host=False, source="nobody knows")) is None
