"""Regret over compute, one panel per task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def draw(path: Path, steps: Mapping[str, Sequence[int]], curves: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Write the figure.

    Args:
        path: An image file; its ending says which kind.
        steps: Task -> amounts of compute.
        curves: Task -> contestant -> mean regret at each of them.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(curves), figsize=(5 * len(curves), 4), squeeze=False)
    for panel, (task, by_name) in zip(panels[0], curves.items(), strict=True):
        for name, regrets in by_name.items():
            panel.plot(steps[task], regrets, label=name, linewidth=2.5 if name == "autotune" else 1.2)
        panel.set(title=task, xlabel="training steps spent", yscale="log")
    panels[0][0].set_ylabel("mean regret of the best full trial")
    panels[0][-1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
