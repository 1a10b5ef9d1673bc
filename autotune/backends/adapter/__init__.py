"""A small program between the guard and a program that does not keep the trial process contract.

``python __main__.py`` in a trial directory reads ``config.yaml``, runs the program that it names as its child, turns
what the program reports into ``metrics.jsonl`` and ``result.json``, and passes SIGTERM on.
"""
