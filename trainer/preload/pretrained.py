"""What a run of a pretrained model imports, but for the model's own file."""

from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from trainer import cli, loop

__all__ = ["AutoModelForCausalLM", "AutoTokenizer", "PreTrainedModel", "cli", "loop"]
