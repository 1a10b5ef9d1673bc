"""The PPO trainer: `python -m trainer` runs alone; `python -m trainer --trial` is one trial of a search.

Importing this package, `trainer.config` or `trainer.contract` imports no torch.
"""
