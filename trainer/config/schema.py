"""The typed configuration: one frozen dataclass per Hydra group.

Values come from `conf/` (no defaults here, so that there is one source of truth); the limits live beside the types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


def limited(
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:  # noqa: ANN401 - dataclasses.field is typed as the value it stands for
    """A required field with its range.

    Args:
        low: Smallest value allowed.
        above: The value must be greater than this.
        high: Largest value allowed.
        choices: The words allowed.
    """
    return field(metadata={"low": low, "above": above, "high": high, "choices": choices})


COMPARING_ESTIMATORS = ("grpo", "dr_grpo", "rloo", "reinforce_pp_baseline")
ADV_ESTIMATORS = ("gae", "reinforce_pp", *COMPARING_ESTIMATORS)
PREFERENCE_ALGORITHMS = ("dpo", "kto")
REWARD_NAMES = ("prefix_match", "exact_match", "partial_to_nines", "gsm8k")


@dataclass(frozen=True, kw_only=True, slots=True)
class KlCtrlConfig:
    """The KL penalty in the reward and its controller."""

    type: str = limited(choices=("fixed", "adaptive"))
    kl_coef: float = limited(low=0.0, high=100.0)
    target_kl: float | None = limited(above=0.0, high=100.0)
    horizon: int | None = limited(low=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class PreferenceConfig:
    """Learning from answers that are known to be better or worse; null for what the algorithm does not read."""

    beta: float | None = limited(above=0.0, high=1000.0)
    loss_type: str | None = limited(choices=("sigmoid", "ipo"))
    label_smoothing: float | None = limited(low=0.0, high=0.5)
    length_normalization: bool | None = field()
    desirable_weight: float | None = limited(above=0.0, high=1000.0)
    undesirable_weight: float | None = limited(above=0.0, high=1000.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class AlgorithmConfig:
    """What is optimised: advantages, clipping, penalties; or preferences."""

    name: str = limited(choices=("ppo", *PREFERENCE_ALGORITHMS))
    adv_estimator: str = limited(choices=ADV_ESTIMATORS)
    gamma: float = limited(low=0.0, high=1.0)
    lam: float = limited(low=0.0, high=1.0)
    whiten_advantages: bool = field()
    truncation: str = limited(choices=("terminal", "bootstrap", "mask"))
    truncation_penalty: float = limited(low=0.0, high=1000.0)
    overlong_buffer: int = limited(low=0, high=1_000_000)
    clip_ratio: float = limited(above=0.0, high=10.0)
    clip_ratio_high: float | None = limited(above=0.0, high=10.0)
    clip_ratio_c: float | None = limited(above=1.0, high=1000.0)
    rollout_is_threshold: float | None = limited(above=0.0, high=1000.0)
    loss_agg_mode: str = limited(choices=("token-mean", "seq-mean-token-sum", "seq-mean-token-mean"))
    cliprange_value: float = limited(above=0.0, high=100.0)
    vf_coef: float = limited(low=0.0, high=100.0)
    entropy_coeff: float = limited(low=0.0, high=10.0)
    kl_loss_coef: float = limited(low=0.0, high=100.0)
    kl_loss_type: str = limited(choices=("k1", "k2", "k3"))  # k1 is known, to be refused with its reason
    kl_ctrl: KlCtrlConfig = field()
    preference: PreferenceConfig = field()

    @property
    def needs_critic(self) -> bool:
        """Whether the advantages come from a value network; all other estimators do without."""
        return self.name == "ppo" and self.adv_estimator == "gae"

    @property
    def learns_from_preferences(self) -> bool:
        """Whether it learns from given answers; otherwise from sampled and rewarded ones."""
        return self.name in PREFERENCE_ALGORITHMS


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmStartConfig:
    """The supervised training that a built-in model has behind it before PPO begins."""

    steps: int = limited(low=0, high=100_000)
    batch_size: int = limited(low=1, high=65_536)
    lr: float = limited(above=0.0, high=1.0)
    slip_fraction: float = limited(low=0.0, high=1.0)
    seed: int = limited(low=0, high=2**32 - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """The actor's network; the reference starts from the same weights, and so does the critic without a path."""

    path: str = field()
    critic_path: str | None = field()
    trust_remote_code: bool = field()
    hidden_size: int | None = limited(low=8, high=65_536)
    intermediate_size: int | None = limited(low=8, high=262_144)
    num_layers: int | None = limited(low=1, high=512)
    num_heads: int | None = limited(low=1, high=512)
    dtype: str = limited(choices=("float32", "bfloat16"))
    enable_gradient_checkpointing: bool = field()
    lora_rank: int = limited(low=0, high=1024)
    lora_alpha: float = limited(above=0.0, high=65_536)
    warm_start: WarmStartConfig = field()


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutConfig:
    """How responses are sampled."""

    name: str = limited(choices=("hf", "vllm", "sglang"))
    temperature: float = limited(above=0.0, high=100.0)
    n: int = limited(low=1, high=4096)
    max_batch_size: int = limited(low=1, high=1_048_576)
    dtype: str | None = limited(choices=("float32", "bfloat16"))
    device: str | None = field()
    tensor_model_parallel_size: int | None = limited(low=1, high=1024)
    gpu_memory_utilization: float | None = limited(above=0.0, high=1.0)
    max_num_batched_tokens: int | None = limited(low=1, high=16_777_216)
    enable_chunked_prefill: bool | None = field()
    enable_prefix_caching: bool | None = field()
    enforce_eager: bool | None = field()
    enable_sleep_mode: bool | None = field()
    sync_tolerance: float | None = limited(above=0.0, high=100.0)
    server_url: str | None = field()
    server_timeout_s: float | None = limited(above=0.0, high=86_400)
    sync_dir: str | None = field()


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimConfig:
    """AdamW and its schedule; one scheduler step per training step."""

    lr: float = limited(above=0.0, high=1.0)
    critic_lr: float = limited(above=0.0, high=1.0)
    weight_decay: float = limited(low=0.0, high=10.0)
    eps: float = limited(above=0.0, high=1.0)
    warmup_steps: int = limited(low=0)
    scheduler: str = limited(choices=("constant", "cosine"))


@dataclass(frozen=True, kw_only=True, slots=True)
class FsdpConfig:
    """How parameters are sharded over the ranks (FSDP2)."""

    sharding_strategy: str = limited(choices=("FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "NO_SHARD"))
    shard_group_size: int | None = limited(low=1, high=65_536)
    cpu_offload: bool = field()


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerConfig:
    """How much is trained, in which batches, with which optimizer."""

    total_steps: int = limited(low=1)
    num_epochs: int | None = limited(low=1)
    until_step: int | None = limited(low=1)
    train_batch_size: int = limited(low=1, high=1_048_576)
    mini_batch_size: int = limited(low=1, high=1_048_576)
    ppo_epochs: int = limited(low=1, high=1000)
    critic_warmup: int = limited(low=0)
    ppo_micro_batch_size_per_gpu: int = limited(low=1, high=1_048_576)
    use_dynamic_bsz: bool = field()
    ppo_max_token_len_per_gpu: int = limited(low=1, high=1_073_741_824)
    use_remove_padding: bool = field()
    grad_clip: float = limited(above=0.0)
    optim: OptimConfig = field()
    fsdp_config: FsdpConfig = field()
    save_freq: int = limited(low=0)
    max_checkpoints: int = limited(low=1)
    save_best: str | None = field()
    save_best_mode: str = limited(choices=("max", "min"))
    test_freq: int = limited(low=0)
    eval_samples: int = limited(low=0, high=1000)
    seed: int = limited(low=0, high=2**32 - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardModelConfig:
    """A reward model: a sequence classifier with its own tokenizer."""

    path: str | None = field()
    label: int | None = limited(low=0, high=100_000)
    input: str = limited(choices=("joined", "pair", "response"))
    batch_size: int = limited(low=1, high=65_536)
    max_length: int | None = limited(low=1, high=1_000_000)
    dtype: str = limited(choices=("float32", "bfloat16"))
    device: str = limited(choices=("auto", "cpu", "cuda"))
    trust_remote_code: bool = field()


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentConfig:
    """One of several rewards whose weighted sum counts; exactly one of name, function and model is set."""

    weight: float = limited(low=-1e6, high=1e6)
    name: str | None = limited(choices=REWARD_NAMES)
    function: str | None = field()
    model: str | None = field()
    label: int | None = limited(low=0, high=100_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardConfig:
    """What a response is worth."""

    name: str | None = limited(choices=REWARD_NAMES)
    function: str | None = field()
    eval_name: str | None = limited(choices=REWARD_NAMES)
    eval_function: str | None = field()
    timeout_s: float = limited(above=0.0, high=86_400)
    normalize: str = limited(choices=("none", "scale", "standardize"))
    model: RewardModelConfig = field()
    components: Mapping[str, ComponentConfig] = field()

    @property
    def is_given(self) -> bool:
        """Whether there is a reward at all: what learns from given answers can do without."""
        sources = (self.name, self.function, self.model.path)
        return any(source is not None for source in sources) or bool(self.components)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """The prompts, and answers to learn from."""

    name: str = limited(choices=("digits", "arithmetic", "jsonl", "parquet"))
    kind: str = limited(choices=("prompts", "pairs", "labels"))
    width: int | None = limited(low=1, high=9)
    train_file: str | None = field()
    eval_file: str | None = field()
    train_size: int | None = limited(low=1, high=10_000_000)
    eval_size: int | None = limited(low=1, high=1_000_000)
    max_prompt_length: int = limited(low=1, high=1_000_000)
    max_response_length: int = limited(low=1, high=1_000_000)
    overlong: str | None = limited(choices=("drop", "truncate"))
    shuffle: bool = field()
    seed: int = limited(low=0, high=2**32 - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class DistributedConfig:
    """How the ranks find each other."""

    master_port: int | None = limited(low=1, high=65_535)
    timeout_s: int = limited(low=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggingConfig:
    """What is said on stderr."""

    progress_freq: int = limited(low=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileConfig:
    """Which steps torch.profiler records."""

    steps: int = limited(low=0, high=1000)
    first_step: int = limited(low=1)
    rows: int = limited(low=1, high=1000)


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemConfig:
    """The machine."""

    device: str = limited(choices=("auto", "cpu", "cuda"))
    num_threads: int | None = limited(low=1, high=4096)
    determinism: bool = field()
    distributed: DistributedConfig = field()
    logging: LoggingConfig = field()
    profile: ProfileConfig = field()


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """The whole configuration of one run."""

    debug: bool = field()
    algorithm: AlgorithmConfig = field()
    model: ModelConfig = field()
    rollout: RolloutConfig = field()
    trainer: TrainerConfig = field()
    reward: RewardConfig = field()
    data: DataConfig = field()
    system: SystemConfig = field()
