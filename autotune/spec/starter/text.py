"""The text of the first space file."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping

from autotune.spec.starter.goals import effect, stability, throughput, uses_vllm
from autotune.spec.starter.wishes import GOALS, PACKED, Wishes, format_of

_PLAIN = re.compile(r"[A-Za-z/][\w./-]*")
MICRO_BATCH = "trainer.ppo_micro_batch_size_per_gpu"
ENGINE_MEMORY = "rollout.gpu_memory_utilization"
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_SEARCHES: Mapping[str, Callable[[Wishes], str]] = {
    "effect": effect,
    "stability": stability,
    "throughput": throughput,
}


def first_space(wishes: Wishes) -> str:
    """A commented space file; it passes ``autotune plan`` where model, data and reward are what they are said to be."""
    about = f"{_model_name(wishes.model)} on {_data_name(wishes.data)}: {GOALS[wishes.goal]}"
    about = " ".join(about.split())
    head = textwrap.dedent(f"""\
    # {about}.
    # Check it:  autotune plan FILE        Run it:  autotune launch FILE
    # Every key of the trainer can stand under overrides and under search; a wrong one is named with its line.
    name: {scalar(wishes.name)}
    description: {scalar(about)}

    """)
    body = _stages(wishes) if wishes.goal == "all" else _SEARCHES[wishes.goal](wishes)
    end = textwrap.dedent("""\

    # Proposes configurations; the same seed proposes the same ones. Also: random, grid, cmaes, gp, qmc.
    sampler: {name: tpe, seed: 0}
    # What the machine breaks is tried again; what the configuration breaks is not.
    retry: {attempts: 2, on: [node_lost, port_in_use, crash]}
    """)
    return head + _trainer(wishes) + "\n" + body + end


def scalar(text: str) -> str:
    """A text as YAML reads it back: as text."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)


def _trainer(wishes: Wishes) -> str:
    lines = [
        "# What is trained. Values that stay the same in all trials.",
        "trainer:",
        "  backend: native",
        "  overrides:",
    ]
    lines += [f"    {line}" for line in [*_model(wishes), *_data(wishes), *_reward(wishes)]]
    gpus = min(wishes.gpus, 1)
    cpus = 4 * gpus if gpus else 1
    lines += ["# What one trial occupies.", f"resources: {{gpus: {gpus}, cpus: {cpus}}}"]
    return "\n".join(lines) + "\n"


def _model(wishes: Wishes) -> list[str]:
    if wishes.tiny:
        return ["model: tiny"]
    named = (
        [f"model: {wishes.model}"] if wishes.model in PACKED else ["model: hf", f"model.path: {scalar(wishes.model)}"]
    )
    lines = [
        *named,
        "# Adapters of this rank instead of all weights need less memory; they want ten times the learning rate.",
        "# model.lora_rank: 32",
        "trainer.train_batch_size: 128",
        "trainer.optim.warmup_steps: " + ("10" if not wishes.steps or wishes.steps >= 40 else "0"),
        "trainer.optim.scheduler: cosine",
        "# Of the critic, times algorithm.vf_coef.",
        "trainer.optim.critic_lr: 1.0e-4",
        "trainer.test_freq: 5",
    ]
    searched = wishes.goal in ("stability", "throughput")
    if not searched:
        lines += [
            "# Sequences that are computed at a time: memory and speed, never what is learnt.",
            f"{MICRO_BATCH}: 4",
        ]
    if uses_vllm(wishes):
        lines += ["# Answers come from vLLM, which takes a share of the GPU's memory.", "rollout: vllm"]
        lines += [] if searched else [f"{ENGINE_MEMORY}: 0.4"]
    return lines


def _data(wishes: Wishes) -> list[str]:
    if not wishes.from_files:
        return [f"data: {wishes.data}"]
    lines = [f"data: {format_of(wishes.data)}", f"data.train_file: {scalar(wishes.data)}"]
    if wishes.eval_data:
        return [*lines, f"data.eval_file: {scalar(wishes.eval_data)}"]
    return [*lines, "# So many rows of it are held out for the evaluation.", "data.eval_size: 128"]


def _reward(wishes: Wishes) -> list[str]:
    reward = wishes.reward or ("exact_match" if wishes.from_files else "")
    if not reward:
        return []
    if ":" in reward:
        return [
            "# Your function; its module must be found on PYTHONPATH.",
            "reward.name: null",
            f"reward.function: {reward}",
        ]
    return [f"reward.name: {scalar(reward)}"]


def _stages(wishes: Wishes) -> str:
    """The three searches one after the other; what a stage has found is fixed in the next one."""
    parts = {
        "stay-alive": (stability(wishes), "pass: max.perf/peak_memory_gb <= " + ("4" if wishes.tiny else "64")),
        "throughput": (throughput(wishes), "pass: mean.perf/tokens_per_s >= 1.1 * default\non_fail: continue"),
        "effect": (effect(wishes), "pass: eval/reward >= default"),
    }
    text = "# One search after the other; the best of each is fixed in the next. pass: what a stage must reach.\n"
    text += "stages:\n"
    texts = (
        f"  - name: {name}\n" + textwrap.indent(f"{search}{criterion}\n", "    ")
        for name, (search, criterion) in parts.items()
    )
    return text + "\n".join(texts)


def _model_name(model: str) -> str:
    return "the tiny model" if model == "tiny" else model.rstrip("/").rpartition("/")[2]


def _data_name(data: str) -> str:
    return {"digits": "number sequences", "arithmetic": "sums"}.get(data, data.rpartition("/")[2])
