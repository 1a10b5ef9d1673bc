"""The critic: a transformer without its language-model head, with a value head that starts at zero."""

from __future__ import annotations

import torch
from torch import Tensor


class Critic(torch.nn.Module):
    """Values of the states of a sequence.

    Args:
        backbone: A transformer that returns hidden states.
        hidden_size: Their width.
    """

    def __init__(self, backbone: torch.nn.Module, hidden_size: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = torch.nn.Linear(hidden_size, 1)
        # A random head would start with values, and so with advantages, that mean nothing.
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None, position_ids: Tensor, **named: object
    ) -> Tensor:
        """The value of the state after each token, `[batch, time, 1]`; what else is named goes to the backbone."""
        hidden: Tensor = self.backbone(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, use_cache=False, **named
        ).last_hidden_state
        values: Tensor = self.head(hidden)
        return values.clone()  # FSDP wants no view: it hangs its backward hook on what is returned
