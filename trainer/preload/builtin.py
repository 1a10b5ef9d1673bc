"""What a run of the built-in model imports."""

from trainer import cli, loop
from trainer.models.lean import llama

llama()

__all__ = ["cli", "loop"]
