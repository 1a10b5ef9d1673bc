"""SGLang as rollout, against a small server that speaks the same endpoints and generates with a real model."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig

from trainer.config import ConfigError, build, compose
from trainer.distributed import open_world
from trainer.failures import EngineError, NonFiniteError, WeightSyncError
from trainer.loop.collect import measure, sample, sync_engine
from trainer.loop.run import build_run
from trainer.loop.targets import compute_targets
from trainer.loop.update import update
from trainer.rollout import Request, Sampling
from trainer.rollout.sglang import SglangEngine
from trainer.rollout.sglang_client import SglangClient
from trainer.rollout.sglang_server import server_arguments
from trainer.rollout.shards import save_shards
from trainer.rollout.team import Team

ROOT = Path(__file__).resolve().parents[2]
LIKE = Path(__file__).with_name("sglang_like.py")
SHAPE = LlamaConfig(
    vocab_size=12, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, eos_token_id=1
)
REQUESTS = [Request(prompt=[2, 3, 4], seed=5), Request(prompt=[6], seed=2**63 - 1), Request(prompt=[7, 8], seed=0)]
SAMPLING = Sampling(temperature=0.9, max_tokens=4)


def load_like() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sglang_like", LIKE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def serve() -> Iterator[Callable[[Path], Any]]:
    servers = []

    def start(model: Path) -> Any:
        with torch.random.fork_rng(devices=[]):
            servers.append(load_like().SglangLike(model))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def server(serve: Callable[[Path], Any], tmp_path: Path) -> Any:
    SHAPE.save_pretrained(tmp_path / "shape")
    return serve(tmp_path / "shape")


def engine_of(url: str, directory: Path, *, team: Any = None, timeout: float = 20) -> Any:
    return SglangEngine(
        SglangClient(url, timeout_s=timeout),
        team=team or Team(),
        directory=directory,
        shape=SHAPE,
        dtype=torch.float32,
        pad_id=0,
        end_id=1,
        device=torch.device("cpu"),
    )


def weights_of(seed: int) -> dict[str, torch.Tensor]:
    from transformers import LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return {name: tensor.clone() for name, tensor in LlamaForCausalLM(SHAPE).named_parameters()}


def rollout_config(
    model: Path, rows: Path, url: str | None, overrides: dict[str, object] | None = None
) -> dict[str, object]:
    lines = [{"prompt": f"{letter} " + "0123456789" * 5, "ground_truth": "1"} for letter in "abcdef"]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings: dict[str, object] = {
        "rollout": "sglang",
        "rollout.server_url": url,
        "rollout.server_timeout_s": 600,
        "rollout.sync_tolerance": 1e-4,
        "rollout.temperature": 0.9,
        "model": "hf",
        "model.path": str(model),
        "model.dtype": "float32",
        "model.lora_rank": 4,
        "model.enable_gradient_checkpointing": False,
        "data": "jsonl",
        "data.train_file": str(rows),
        "data.eval_size": 2,
        "data.max_prompt_length": 80,
        "data.max_response_length": 5,
        "data.shuffle": False,
        "reward.name": None,
        "reward.function": "trainer.rewards.builtin:prefix_match",
        "algorithm.entropy_coeff": 0.1,
        "trainer.train_batch_size": 4,
        "trainer.mini_batch_size": 2,
        "trainer.total_steps": 2,
        "trainer.optim.lr": 3e-3,
        "trainer.optim.warmup_steps": 0,
        "trainer.save_freq": 0,
        "system.num_threads": 1,
    }
    return dict(compose(overrides={**settings, **(overrides or {})}))


def test_log_probabilities_equal_the_trainers_before_and_after_every_update(
    tmp_path: Path, hf_model: Callable[..., Path], serve: Callable[[Path], Any], one_thread: None
) -> None:
    model = hf_model()
    server = serve(model)
    config = build(rollout_config(model, tmp_path / "rows.jsonl", server.url, {"rollout.sync_dir": str(tmp_path)}))
    with open_world(config.system) as world:
        run = build_run(config, world)
        gaps = []
        for step in range(1, 11):
            sync_engine(run, step - 1)
            experience = measure(run, *sample(run, step))
            mask = experience.response_mask
            gaps.append(float((experience.rollout_logprobs - experience.old_logprobs)[mask].abs().max()))
            update(
                run,
                experience,
                compute_targets(experience, experience.scores, config.algorithm, 0.1, run.mathematics),
                step,
            )
        assert max(gaps) < 1e-4

        # Without the weights, and without the flush, the check finds it out.
        run.engine._client.update_weights = lambda directory, word: setattr(server, "version", word)
        sync_engine(run, 10)
        with pytest.raises(WeightSyncError, match="log-probabilities differ from the actor's by up to"):
            sample(run, 11)
        del run.engine._client.update_weights
        flushes, server.cache = server.cache, Unforgetting(server.cache)
        sync_engine(run, 11)
        with pytest.raises(WeightSyncError, match="log-probabilities differ from the actor's by up to"):
            sample(run, 12)
        server.cache = flushes
        sync_engine(run, 12)
        sample(run, 13)
    assert not list(tmp_path.glob("*-*"))  # no weights are left behind


class Unforgetting(dict):
    """A cache that is not flushed."""

    def clear(self) -> None:
        """Keep everything."""


@pytest.mark.slow
@pytest.mark.timeout(900)  # on a busy machine
def test_a_trial_on_two_ranks_launches_its_server_and_ends_it(
    tmp_path: Path, hf_model: Callable[..., Path], lines_of: Callable
) -> None:
    package = tmp_path / "packages" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    launched = tmp_path / "launched.json"
    (package / "launch_server.py").write_text(
        "import json, os, runpy, sys\n"
        f"json.dump([os.getpid(), sys.argv[1:]], open({str(launched)!r}, 'w'))\n"
        f"runpy.run_path({str(LIKE)!r}, run_name='__main__')\n"
    )
    config = rollout_config(hf_model(), tmp_path / "rows.jsonl", None, {"rollout.n": 2, "trainer.save_freq": 0})
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    path = os.pathsep.join([str(ROOT), str(tmp_path / "packages")])
    done = subprocess.run(
        [
            sys.executable,
            *["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "trainer", "--trial"],
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    steps = [line["metrics"] for line in lines_of(tmp_path) if line["step"] > 0 and "metrics" in line]
    assert len(steps) == 2
    assert all(abs(metrics["kl/rollout_actor"]) < 1e-6 for metrics in steps)
    process, arguments = json.loads(launched.read_text())
    assert "--enable-deterministic-inference" in arguments
    assert not Path(f"/proc/{process}").exists()


def test_a_response_depends_on_its_own_seed_alone(server: Any, tmp_path: Path) -> None:
    engine = engine_of(server.url, tmp_path / "sync")
    engine.sync(weights_of(0).items(), 3)
    together, backwards = engine.generate(REQUESTS, SAMPLING), engine.generate(REQUESTS[::-1], SAMPLING)
    assert torch.equal(together.tokens, backwards.tokens.flip(0))
    assert (together.policy_version, engine.policy_version) == (3, 3)
    ended = together.tokens.eq(1) & together.mask
    assert torch.equal(together.truncated, ~ended.any(dim=1))


def test_the_server_is_asked_for_unbiased_samples_that_stop_at_the_end_token(server: Any, tmp_path: Path) -> None:
    engine = engine_of(server.url, tmp_path / "sync")
    engine.sync(weights_of(0).items(), 0)
    engine.generate(REQUESTS, SAMPLING)
    asked = dict(server.calls)["/generate"]
    parameters = asked["sampling_params"][1]
    assert (parameters["top_p"], parameters["top_k"], parameters["min_p"]) == (1.0, -1, 0.0)
    assert (parameters["temperature"], parameters["max_new_tokens"], parameters["sampling_seed"]) == (0.9, 4, 2**63 - 1)
    assert parameters["stop_token_ids"] == [1]
    assert "ignore_eos" not in parameters  # SGLang would not stop at all
    assert asked["return_logprob"] is True
    assert [path for path, _ in server.calls] == ["/update_weights_from_disk", "/flush_cache", "/generate"]


class Follower:
    """Stands for a team in which another rank talks to the server.

    Args:
        leader: What the leader brings to one exchange after the other.
    """

    is_leader = False

    def __init__(self, *leader: object) -> None:
        self._leader = list(leader)

    def gathered(self, requests: list[Request]) -> tuple[list[Request], slice]:
        return [*REQUESTS, *requests], slice(len(REQUESTS), len(REQUESTS) + len(requests))

    def all(self, item: object) -> list:
        return [self._leader.pop(0), item]


def test_a_rank_that_does_not_talk_takes_its_part_and_fails_with_the_one_that_does(server: Any, tmp_path: Path) -> None:
    leader = engine_of(server.url, tmp_path / "sync")
    leader.sync(weights_of(0).items(), 1)
    whole = leader.generate([*REQUESTS, REQUESTS[0]], SAMPLING)
    weights = iter(weights_of(0).items())
    follower = engine_of("http://127.0.0.1:1", tmp_path, team=Follower([], [], whole, [EngineError("it is away")]))
    follower.sync(weights, 1)
    assert next(weights, None) is None  # gathering is collective: every rank takes every weight
    mine = follower.generate(REQUESTS[:1], SAMPLING)
    assert torch.equal(mine.tokens, whole.tokens[3:])
    assert torch.equal(mine.logprobs, whole.logprobs[3:])
    with pytest.raises(EngineError, match="it is away"):
        follower.sync(weights_of(0).items(), 2)
    assert follower.policy_version == -1


def test_weights_of_somebody_else_are_found_out(server: Any, tmp_path: Path) -> None:
    ours, theirs = engine_of(server.url, tmp_path / "ours"), engine_of(server.url, tmp_path / "theirs")
    ours.sync(weights_of(0).items(), 1)
    theirs.sync(weights_of(1).items(), 1)
    with pytest.raises(WeightSyncError, match="sampled with the weights") as caught:
        ours.generate(REQUESTS, SAMPLING)
    assert caught.value.kind == "weight_sync"


def test_weights_that_do_not_fit_are_refused_and_leave_no_version(server: Any, tmp_path: Path) -> None:
    engine = engine_of(server.url, tmp_path / "sync")
    engine.sync(weights_of(0).items(), 1)
    with pytest.raises(WeightSyncError, match=r"did not take the weights in .* 400 .*cannot load"):
        engine.sync([("model.norm.weight", torch.ones(3))], 2)
    assert engine.policy_version == -1
    server.spoil["/flush_cache"] = (400, "requests are running")
    with pytest.raises(WeightSyncError, match="did not flush its cache: 400 requests are running"):
        engine.sync(weights_of(0).items(), 2)


def test_destroyed_weights_are_refused(server: Any, tmp_path: Path) -> None:
    engine = engine_of(server.url, tmp_path / "sync")
    engine.sync(((name, tensor * float("nan")) for name, tensor in weights_of(0).items()), 1)
    with pytest.raises(NonFiniteError, match="its weights are destroyed"):
        engine.generate(REQUESTS, SAMPLING)


GOOD = {"finish_reason": {"type": "stop"}, "output_token_logprobs": [[-0.5, 1, None]]}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, "out of order"), "refused to generate: 500 out of order"),
        ((200, "no JSON"), "sent no list of answers"),
        ((200, {"error": "x"}), "sent no list of answers"),
        ((200, [{"meta_info": GOOD}] * 2), "sent 2 answers to 3 requests"),
        ((200, [{"text": "x"}] * 3), "has no meta_info"),
        ((200, [{"meta_info": {**GOOD, "output_token_logprobs": []}}] * 3), "has 0 tokens, wanted are 1 to 4"),
        ((200, [{"meta_info": {**GOOD, "output_token_logprobs": [[-1.0, 2, None]] * 5}}] * 3), "has 5 tokens"),
        ((200, [{"meta_info": {**GOOD, "output_token_logprobs": None}}] * 3), "has None"),
        ((200, [{"meta_info": {**GOOD, "output_token_logprobs": [7]}}] * 3), "are no pairs"),
        ((200, [{"meta_info": {**GOOD, "finish_reason": {"type": "abort", "message": "full"}}}] * 3), "aborted: full"),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused(
    server: Any, tmp_path: Path, answer: tuple[int, Any], message: str
) -> None:
    engine = engine_of(server.url, tmp_path / "sync")
    engine.sync(weights_of(0).items(), 1)
    if isinstance(answer[1], list):
        for item in answer[1]:
            item.get("meta_info", {})["weight_version"] = server.version
    server.spoil["/generate"] = answer
    with pytest.raises(EngineError, match=message) as caught:
        engine.generate(REQUESTS, SAMPLING)
    assert caught.value.kind == "node"


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


def test_a_server_that_is_away_or_silent_is_named(tmp_path: Path, closed_port: int, silent_port: int) -> None:
    away = engine_of(f"http://127.0.0.1:{closed_port}", tmp_path)
    with pytest.raises(EngineError, match="is away"):
        away.sync(weights_of(0).items(), 1)
    assert away.policy_version == -1
    silent = engine_of(f"http://127.0.0.1:{silent_port}", tmp_path, timeout=0.2)
    with pytest.raises(EngineError, match=r"did not answer /generate within 0\.2 s"):
        silent.generate(REQUESTS, SAMPLING)
    with pytest.raises(EngineError, match=r"no SGLang server answers at .* within 0\.2 s"):
        SglangClient(f"http://127.0.0.1:{silent_port}", timeout_s=0.2).wait_until_up()
    with pytest.raises(EngineError, match="ended while it started"):
        SglangClient(f"http://127.0.0.1:{closed_port}", timeout_s=60, is_alive=lambda: False).wait_until_up()


def test_a_run_without_its_server_ends_as_a_lost_node(
    tmp_path: Path, hf_model: Callable[..., Path], run_files: Callable, closed_port: int
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"{n}", "ground_truth": "1"}) + "\n" for n in range(20)))
    overrides = {
        "rollout": "sglang",
        "rollout.server_url": f"http://127.0.0.1:{closed_port}",
        "rollout.server_timeout_s": 0.1,
        "data": "jsonl",
        "data.train_file": str(rows),
        "reward": "gsm8k",
    }
    ended = run_files(tmp_path, hf_model(), overrides)
    assert (ended.code, ended.result["error"]["kind"]) == (1, "node")
    assert "no SGLang server answers" in ended.stderr


def test_without_sglang_and_without_a_server_the_run_is_refused(tmp_path: Path, run_here: Callable) -> None:
    ended = run_here(tmp_path, {"rollout.name": "sglang", "rollout.server_timeout_s": 1})
    assert (ended.code, ended.result["error"]["kind"], ended.result["last_step"]) == (1, "config", 0)
    assert "pip install sglang, or set rollout.server_url" in ended.stderr


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ({}, ["--dtype", "float32"]),
        ({"rollout.dtype": "bfloat16"}, ["--dtype", "bfloat16"]),
        ({"rollout.tensor_model_parallel_size": 2}, ["--tp-size", "2"]),
        ({"rollout.gpu_memory_utilization": 0.4}, ["--mem-fraction-static", "0.4"]),
        ({"rollout.max_num_batched_tokens": 512}, ["--chunked-prefill-size", "512", "--max-prefill-tokens", "512"]),
        ({"rollout.enable_chunked_prefill": False}, ["--chunked-prefill-size", "-1"]),
        ({"rollout.enable_prefix_caching": False}, ["--disable-radix-cache"]),
        ({"rollout.enforce_eager": True}, ["--disable-cuda-graph"]),
        ({"rollout.max_batch_size": 7}, ["--max-running-requests", "7"]),
        ({"trainer.seed": 5}, ["--random-seed", "5"]),
    ],
)
def test_every_key_reaches_a_server_of_our_own(overrides: dict[str, object], wanted: list[str]) -> None:
    config = build(compose(overrides={"rollout": "sglang", **overrides}))
    arguments = server_arguments(config, Path("/model"), 4321, torch.device("cpu"))
    assert " ".join(wanted) in " ".join(arguments)
    assert " ".join(arguments).startswith("--model-path /model --load-format dummy --host 127.0.0.1 --port 4321")


@pytest.mark.parametrize(
    ("overrides", "path", "message"),
    [
        ({"rollout.server_url": "127.0.0.1:30000"}, "rollout.server_url", "must be http://host:port"),
        (
            {"rollout.server_url": "http://h:1", "rollout.dtype": "bfloat16"},
            "rollout.dtype",
            "was launched without it",
        ),
        ({"rollout.server_timeout_s": None}, "rollout.server_timeout_s", "needs it"),
        ({"rollout.device": "auto"}, "rollout.device", "rollout.name = sglang does not read it"),
        ({"rollout.enable_sleep_mode": True}, "rollout.enable_sleep_mode", "does not read it"),
    ],
)
def test_keys_that_contradict_the_server_are_refused(overrides: dict[str, object], path: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(compose(overrides={"rollout": "sglang", **overrides}))
    assert [problem.path for problem in caught.value.problems] == [path]
    assert message in str(caught.value)


def test_weights_are_written_in_several_files_with_an_index(tmp_path: Path) -> None:
    weights = weights_of(4)
    save_shards(weights.items(), SHAPE, tmp_path, most=2000)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 2
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in weights.values())
    found = {name: tensor for file in files for name, tensor in load_file(file).items()}
    assert found.keys() == weights.keys() == index["weight_map"].keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in weights.items())
