"""The sizes of a language model, from the `config.json` beside its weights; nothing is imported to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_PLAIN_MLP = ("gpt2", "gpt_neox", "gptj", "gpt_neo", "gpt_bigcode", "opt", "bloom", "phi", "falcon", "starcoder2")
_LAYER_NORM = (*_PLAIN_MLP, "mpt", "stablelm")
_TIED = ("gpt2", "gpt_neo", "gpt_bigcode", "opt", "bloom", "gemma", "gemma2", "gemma3_text", "falcon", "cohere")
_QKV_BIAS = ("qwen2", "qwen2_moe", "gpt2", "gpt_neox", "gpt_bigcode", "opt", "bloom")
_FOUR_NORMS = ("gemma2", "gemma3_text")
_LEARNED_POSITIONS = ("gpt2", "gpt_neo", "gpt_bigcode", "opt")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """What memory depends on.

    Attributes:
        hidden: Width of the residual stream.
        inner: Width of the feed-forward layer that one token passes through (all its experts together).
        query: Width of all query heads together.
        key_value: Width of all key heads, and of all value heads.
        tied: The head's weights are the embeddings'.
        gated: The feed-forward layer has a gate (three matrices instead of two).
        rms_norm: Norms are computed in float32 out of single operations (RMSNorm), not in one (LayerNorm).
        experts: Width of the feed-forward layers of all experts together; 0 without experts.
        extra: Parameters beside embeddings, head and blocks (learned positions).
        biases: Biases and norm weights of one block.
    """

    layers: int
    hidden: int
    inner: int
    heads: int
    query: int
    key_value: int
    vocab: int
    tied: bool
    gated: bool = True
    rms_norm: bool = True
    experts: int = 0
    extra: int = 0
    biases: int = 0

    @property
    def block(self) -> int:
        """Parameters of one transformer block."""
        attention = self.hidden * (2 * self.query + 2 * self.key_value)
        matrices = 3 if self.gated else 2
        return attention + matrices * self.hidden * (self.experts or self.inner) + self.biases

    @property
    def embeddings(self) -> int:
        """Parameters of the input embeddings."""
        return self.vocab * self.hidden

    @property
    def head(self) -> int:
        """Parameters of the language-model head that are not the embeddings'."""
        return 0 if self.tied else self.embeddings

    @property
    def backbone(self) -> int:
        """Parameters without a head: what a critic keeps of the model."""
        return self.layers * self.block + self.embeddings + self.extra + self.hidden

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.backbone + self.head

    def adapters(self, rank: int) -> int:
        """Parameters of low-rank adapters beside every linear layer but the head."""
        attention = 2 * (self.hidden + self.query) + 2 * (self.hidden + self.key_value)
        matrices = 3 if self.gated else 2
        return self.layers * rank * (attention + matrices * (self.hidden + (self.experts or self.inner)))


def shape_of(config: Mapping[str, object]) -> ModelShape | None:
    """The sizes that a Hugging Face `config.json` states; None when it lacks one of those that everything needs."""
    inner_config = config.get("text_config")
    text = inner_config if isinstance(inner_config, Mapping) else config
    kind = str(text.get("model_type", config.get("model_type", "")))
    hidden = _number(text, "hidden_size", "n_embd", "d_model")
    layers = _number(text, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    heads = _number(text, "num_attention_heads", "n_head", "n_heads")
    vocab = _number(text, "vocab_size")
    if not (hidden and layers and heads and vocab):
        return None
    head = _number(text, "head_dim") or hidden // heads
    query = heads * head
    key_value = (_number(text, "num_key_value_heads", "num_kv_heads") or heads) * head
    inner = _number(text, "intermediate_size", "n_inner", "ffn_dim") or 4 * hidden
    experts = _number(text, "num_local_experts", "num_experts", "n_routed_experts") or 0
    of_expert = _number(text, "moe_intermediate_size") or inner
    active = _number(text, "num_experts_per_tok") or 1
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    positions = _number(text, "max_position_embeddings", "n_positions") or 0
    norms = (4 if kind in _FOUR_NORMS else 2) * hidden
    qkv_bias = query + 2 * key_value if kind in _QKV_BIAS or text.get("attention_bias") is True else 0
    return ModelShape(
        layers=layers,
        hidden=hidden,
        inner=active * of_expert if experts else inner,
        heads=heads,
        query=query,
        key_value=key_value,
        vocab=vocab,
        tied=tied if isinstance(tied, bool) else kind in _TIED,
        gated=kind not in _PLAIN_MLP,
        rms_norm=kind not in _LAYER_NORM,
        experts=experts * of_expert,
        extra=positions * hidden if kind in _LEARNED_POSITIONS else 0,
        biases=norms + qkv_bias,
    )


def _number(config: Mapping[str, object], *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0
