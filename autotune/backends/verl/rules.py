"""What verl itself checks only after it has started, checked at once on the composed tree.

After ``verl.utils.config.validate_config`` and the ``validate`` and ``__post_init__`` methods of its configurations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from autotune.backends.verl.names import ACTOR, MODEL, REF, ROLLOUT
from autotune.spec.values import FlatConfig

_ALLOWED: Mapping[str, tuple[str, ...]] = {
    f"{ROLLOUT}.name": ("vllm", "sglang", "trtllm"),
    f"{ROLLOUT}.mode": ("async",),
    f"{ACTOR}.loss_agg_mode": (
        *("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"),
    ),
    f"{ACTOR}.policy_loss.loss_mode": (
        *("vanilla", "dppo_tv", "dppo_kl", "gspo", "sapo", "gpg", "clip_cov", "kl_cov", "geo_mean", "dro", "cispo"),
        "bypass_mode",
    ),
    f"{ACTOR}.kl_loss_type": (
        *("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3"),
        *("kl+", "k1+", "abs+", "mse+", "k2+", "low_var_kl+", "k3+"),
    ),
    "algorithm.kl_ctrl.type": ("fixed", "adaptive"),
    "trainer.resume_mode": ("auto", "disable", "resume_path"),
}
_POSITIVE = (
    f"{ACTOR}.optim.clip_grad",
    "critic.optim.clip_grad",
    f"{ACTOR}.optim.lr",
    "critic.optim.lr",
    f"{ACTOR}.ppo_epochs",
    f"{ACTOR}.ppo_mini_batch_size",
    "data.train_batch_size",
    f"{ROLLOUT}.n",
    f"{ROLLOUT}.tensor_model_parallel_size",
    "trainer.n_gpus_per_node",
    "trainer.nnodes",
)
_MAX_LORA_RANK = 512
_MICRO = "log_prob_micro_batch_size"


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """One rule that does not hold.

    Attributes:
        keys: The keys that it reads, the one to blame first.
    """

    keys: tuple[str, ...]
    message: str
    hint: str


Values: TypeAlias = FlatConfig


def broken_rules(tree: Values) -> list[Broken]:
    """Everything that verl would refuse, or run into later.

    Args:
        tree: The composed tree, flat, with interpolations resolved.
    """
    found = [*_words(tree), *_signs(tree)]
    if not found:  # the arithmetic below needs sensible numbers
        for rule in (_batches, _micro_batches, _lengths, _parallel, _other):
            found += rule(tree)
    return found


def _words(tree: Values) -> Iterator[Broken]:
    for key, allowed in _ALLOWED.items():
        value = tree.get(key)
        if value is not None and value not in allowed:
            yield _broken(f"must be one of {', '.join(allowed)}; got {value!r}.", "", key)


def _signs(tree: Values) -> Iterator[Broken]:
    for key in _POSITIVE:
        value = tree.get(key)
        if isinstance(value, int | float) and value <= 0:
            why = " (verl would zero or flip every gradient and say nothing)" if key.endswith("clip_grad") else ""
            yield _broken(f"must be above 0{why}; got {value!r}.", "", key)
    clip = tree.get(f"{ACTOR}.clip_ratio_c")
    if isinstance(clip, int | float) and clip <= 1:
        yield _broken(f"must be above 1; got {clip!r}.", "verl's own value is 3.0.", f"{ACTOR}.clip_ratio_c")
    share = tree.get(f"{ROLLOUT}.gpu_memory_utilization")
    if isinstance(share, int | float) and not 0 < share <= 1:
        yield _broken(f"must be above 0 and at most 1; got {share!r}.", "", f"{ROLLOUT}.gpu_memory_utilization")


def _batches(tree: Values) -> Iterator[Broken]:
    batch, mini, n = (
        _n(tree, "data.train_batch_size"),
        _n(tree, f"{ACTOR}.ppo_mini_batch_size"),
        _n(tree, f"{ROLLOUT}.n"),
    )
    gpus = _gpus(tree)
    ranks = _data_parallel(tree)
    if batch < mini:
        message = f"the batch of {batch} prompts is smaller than one mini-batch of {mini}."
        yield _broken(message, "Lower mini_batch_size.", f"{ACTOR}.ppo_mini_batch_size", "data.train_batch_size")
    critic = _n(tree, "critic.ppo_mini_batch_size")
    if needs_critic(tree) and critic != mini and batch < critic:
        message = f"the batch of {batch} prompts is smaller than the critic's mini-batch of {critic}."
        yield _broken(message, "Lower it.", "critic.ppo_mini_batch_size", "data.train_batch_size")
    if not tree.get(f"{ACTOR}.use_dynamic_bsz") and (batch * n) % gpus:
        message = f"{batch} prompts x {n} responses cannot be divided among {gpus} GPUs."
        yield _broken(
            message, f"Take a multiple of {gpus}.", "data.train_batch_size", f"{ROLLOUT}.n", "trainer.n_gpus_per_node"
        )
    if (mini * n) % ranks:
        message = f"a mini-batch of {mini} prompts x {n} responses cannot be divided among {ranks} data-parallel ranks."
        yield _broken(message, f"Take a multiple of {ranks}.", f"{ACTOR}.ppo_mini_batch_size", f"{ROLLOUT}.n")


def _micro_batches(tree: Values) -> Iterator[Broken]:
    if tree.get(f"{ACTOR}.use_dynamic_bsz"):
        return
    parts = [(ACTOR, "ppo_micro_batch_size"), (ROLLOUT, _MICRO)]
    parts += [("critic", "ppo_micro_batch_size")] if needs_critic(tree) else []
    parts += [(REF, _MICRO)] if needs_reference(tree) else []
    for part, name in parts:
        old, new = tree.get(f"{part}.{name}"), tree.get(f"{part}.{name}_per_gpu")
        keys = (f"{part}.{name}_per_gpu", "trainer.ppo_micro_batch_size_per_gpu", f"{part}.{name}")
        if old is None and new is None:
            hint = "Set ppo_micro_batch_size_per_gpu (it sets all four), or use_dynamic_bsz: true."
            yield _broken(f"{part} has no micro-batch size.", hint, *keys)
        elif old is not None and new is not None:
            yield _broken(
                f"{name} and {name}_per_gpu are both set.", f"Remove {part}.{name}.", f"{part}.{name}", keys[0]
            )


def _lengths(tree: Values) -> Iterator[Broken]:
    longest = _n(tree, "data.max_prompt_length") + _n(tree, "data.max_response_length")
    shards = max(1, _n(tree, f"{ACTOR}.ulysses_sequence_parallel_size"))
    room = f"{ACTOR}.ppo_max_token_len_per_gpu"
    if tree.get(f"{ACTOR}.use_dynamic_bsz") and _n(tree, room) * shards < longest:
        message = f"{_n(tree, room)} tokens per GPU are fewer than one sequence of up to {longest} tokens."
        yield _broken(message, f"Raise it to {longest} or more.", room, "data.max_response_length")
    chunk = f"{ROLLOUT}.max_num_batched_tokens"
    if tree.get(f"{ROLLOUT}.enable_chunked_prefill") is False and _n(tree, chunk) < longest:
        message = f"without chunked prefill {_n(tree, chunk)} batched tokens must hold a sequence of {longest}."
        yield _broken(
            message, f"Raise it to {longest}, or enable chunked prefill.", chunk, f"{ROLLOUT}.enable_chunked_prefill"
        )
    limit = tree.get(f"{ROLLOUT}.max_model_len")
    if isinstance(limit, int) and limit < longest:
        message = f"the engine's {limit} tokens are fewer than prompt and response together ({longest})."
        yield _broken(message, f"Raise it to {longest}.", f"{ROLLOUT}.max_model_len", "data.max_response_length")


def _parallel(tree: Values) -> Iterator[Broken]:
    gpus = _gpus(tree)
    tensor = f"{ROLLOUT}.tensor_model_parallel_size"
    each = _n(tree, tensor) * max(1, _n(tree, f"{ROLLOUT}.data_parallel_size"))
    if gpus % each:
        message = f"{gpus} GPUs cannot be divided into rollout engines of {each}."
        yield _broken(message, "Lower tensor_model_parallel_size.", tensor, "trainer.n_gpus_per_node")
    if _n(tree, f"{ROLLOUT}.pipeline_model_parallel_size") > 1:
        yield _broken(
            "no engine implements pipeline stages in the rollout.",
            "Set it to 1.",
            f"{ROLLOUT}.pipeline_model_parallel_size",
        )
    if tree.get(f"{ACTOR}.strategy") == "megatron":
        shards = [
            _n(tree, f"{ACTOR}.megatron.{kind}_parallel_size") for kind in ("tensor_model", "pipeline_model", "context")
        ]
        size = shards[0] * shards[1] * shards[2]
        if size and gpus % size:
            message = f"{gpus} GPUs cannot be divided into model-parallel groups of {size}."
            yield _broken(message, "Lower one of the sizes.", f"{ACTOR}.megatron.tensor_model_parallel_size")
    if _n(tree, f"{ACTOR}.ulysses_sequence_parallel_size") > 1 and not tree.get(f"{MODEL}.use_remove_padding"):
        hint = f"Set {MODEL}.use_remove_padding: true."
        yield _broken("sequence parallelism needs padding removed.", hint, f"{ACTOR}.ulysses_sequence_parallel_size")


def _other(tree: Values) -> Iterator[Broken]:
    rank = f"{MODEL}.lora_rank"
    if (
        tree.get(f"{ROLLOUT}.name") == "vllm"
        and _n(tree, rank) > _MAX_LORA_RANK
        and not tree.get(f"{MODEL}.lora.merge")
    ):
        yield _broken(f"vLLM allows ranks up to {_MAX_LORA_RANK}, got {_n(tree, rank)}.", "Lower it.", rank)
    sampling = f"{ROLLOUT}.val_kwargs.do_sample"
    if tree.get(sampling) and not tree.get(f"{ROLLOUT}.temperature"):
        yield _broken(
            "validation by sampling needs a temperature above 0.", "Raise it.", f"{ROLLOUT}.temperature", sampling
        )
    if tree.get(f"{ACTOR}.policy_loss.loss_mode") == "dro" and tree.get(f"{ACTOR}.policy_loss.dro_beta") is None:
        yield _broken(
            "loss_mode dro needs dro_beta.",
            "Set it.",
            f"{ACTOR}.policy_loss.dro_beta",
            f"{ACTOR}.policy_loss.loss_mode",
        )
    if tree.get("reward.reward_model.enable") and not tree.get("reward.reward_model.model_path"):
        yield _broken(
            "the reward model has no path.", "Set it.", "reward.reward_model.model_path", "reward.reward_model.enable"
        )
    if tree.get("reward.reward_model.enable") and tree.get("reward.reward_model.rollout.name") == "???":
        yield _broken(
            "the reward model has no engine.",
            "Set it to vllm.",
            "reward.reward_model.rollout.name",
            "reward.reward_model.enable",
        )


def needs_critic(tree: Values) -> bool:
    """Whether this run trains a critic."""
    enable = tree.get("critic.enable")
    return bool(enable) if enable is not None else tree.get("algorithm.adv_estimator") == "gae"


def needs_reference(tree: Values) -> bool:
    """Whether this run loads a reference: without a KL term it does not, and measures no KL to it."""
    return bool(tree.get("algorithm.use_kl_in_reward") or tree.get(f"{ACTOR}.use_kl_loss"))


def _gpus(tree: Values) -> int:
    return _n(tree, "trainer.n_gpus_per_node") * _n(tree, "trainer.nnodes")


def _data_parallel(tree: Values) -> int:
    sizes = [max(1, _n(tree, f"{ACTOR}.ulysses_sequence_parallel_size"))]
    if tree.get(f"{ACTOR}.strategy") == "megatron":
        kinds = ("tensor_model", "pipeline_model", "context")
        sizes = [max(1, _n(tree, f"{ACTOR}.megatron.{kind}_parallel_size")) for kind in kinds]
    product = 1
    for size in sizes:
        product *= size
    return max(1, _gpus(tree) // product)


def _n(tree: Values, key: str) -> int:
    value = tree.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _broken(message: str, hint: str, *keys: str) -> Broken:
    return Broken(keys=keys, message=message, hint=hint)
