"""The tokenizer of a model in Hugging Face format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, kw_only=True, slots=True)
class HfTokenizer:
    """Wraps a tokenizer of transformers.

    Attributes:
        inner: The tokenizer; it must have an end token.
    """

    inner: PreTrainedTokenizerBase

    @property
    def pad_id(self) -> int:
        """The padding token, or the end token where there is none: masks are built from lengths, never from ids."""
        pad = self.inner.pad_token_id
        return self.end_id if pad is None else int(pad)

    @property
    def end_id(self) -> int:
        """The end token."""
        return int(self.inner.eos_token_id)

    @property
    def vocab_size(self) -> int:
        """Tokens, added ones included."""
        return len(self.inner)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; special tokens written in it are recognised, none is added."""
        return list(self.inner.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids without special tokens.

        A model's vocabulary is often padded beyond its tokenizer: such ids stand for no text.
        """
        known = [token for token in ids if token < self.vocab_size]
        return str(self.inner.decode(known, skip_special_tokens=True))

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The messages in the model's chat template, up to where its answer begins.

        Raises:
            ValueError: There is no chat template, or it refuses these messages.
        """
        if self.inner.chat_template is None:
            raise ValueError("the prompt is a list of chat messages, but the model's tokenizer has no chat template")
        try:
            text = self.inner.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        except Exception as error:  # a template is a program of its author's, which raises what it likes
            raise ValueError(f"the chat template refuses these messages: {error}") from error
        return str(text)

    def opening(self, text: str) -> str:
        """The text after the token that the tokenizer puts in front of every text, if it does so."""
        first = self.inner.bos_token_id
        opened = first is not None and self.inner.encode("a")[:1] == [first]
        return f"{self.inner.bos_token}{text}" if opened else text
