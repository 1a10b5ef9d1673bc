"""A randomly initialised Llama with a byte-level tokenizer, in a directory as a pretrained model would lie there."""

from __future__ import annotations

from pathlib import Path


def save_random_model(directory: Path, *, hidden: int, inner: int, layers: int, heads: int, vocab: int) -> None:
    """Write config, weights and tokenizer.

    Among so many tokens the end token is hardly ever drawn, so a response has its full length.

    Args:
        directory: Exists and is empty.
        hidden: Width of the residual stream.
        inner: Width of the feed-forward layers.
        layers: Transformer blocks.
        heads: Attention heads.
        vocab: Token embeddings, at least 258.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: place for place, word in enumerate(["<|pad|>", "<|end|>", *alphabet])}
    inner_tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    inner_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner_tokenizer.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner_tokenizer, pad_token="<|pad|>", eos_token="<|end|>")
    tokenizer.save_pretrained(directory)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        pad_token_id=words["<|pad|>"],
        bos_token_id=None,
        eos_token_id=words["<|end|>"],
    )
    LlamaForCausalLM(config).save_pretrained(directory)
