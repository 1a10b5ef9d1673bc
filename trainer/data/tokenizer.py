"""What the loop needs of a tokenizer, and one of single characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class Tokenizer(Protocol):
    """Text to tokens and back."""

    @property
    def pad_id(self) -> int:
        """Fills the rows of a batch."""

    @property
    def end_id(self) -> int:
        """Ends a response."""

    @property
    def vocab_size(self) -> int:
        """One more than the largest token id."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, nothing added."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids; special tokens are left out."""

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Chat messages as the text after which the model answers.

        Raises:
            ValueError: There is no chat template, or it refuses these messages.
        """

    def opening(self, text: str) -> str:
        """A plain prompt as the model expects it: with the token that opens every text, where there is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CharTokenizer:
    """One token per character, after a padding and an end token.

    The padding token is a token of its own: masks are built from lengths, but a padding that equals the end token
    would make a bug there invisible.

    Attributes:
        alphabet: The characters, each once.
    """

    alphabet: str

    @property
    def pad_id(self) -> int:
        """Fills the rows of a batch."""
        return 0

    @property
    def end_id(self) -> int:
        """Ends a response."""
        return 1

    @property
    def vocab_size(self) -> int:
        """Characters plus the two special tokens."""
        return len(self.alphabet) + 2

    def encode(self, text: str) -> list[int]:
        """Token ids of a text.

        Raises:
            ValueError: A character outside the alphabet.
        """
        foreign = sorted(set(text) - set(self.alphabet))
        if foreign:
            raise ValueError(f"cannot encode {text!r}: {foreign[0]!r} is not in the alphabet {self.alphabet!r}")
        return [self.alphabet.index(char) + 2 for char in text]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids; padding and end tokens are left out."""
        return "".join(self.alphabet[token - 2] for token in ids if token >= 2)

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Chat messages need words, which characters of a built-in task do not make."""
        raise ValueError(f"the built-in model has no chat template (got {len(messages)} messages)")

    def opening(self, text: str) -> str:
        """The text itself: no token opens it."""
        return text
