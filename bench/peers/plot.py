"""Draws the bars of one run: `python plot.py FIGURES.json PLOT.svg`, by the Python that has matplotlib."""

import json
import sys
from pathlib import Path

import matplotlib
from matplotlib import pyplot

source, target = sys.argv[1:]
figures = json.loads(Path(source).read_text(encoding="utf-8"))
names, lanes = list(figures), sorted({int(lane) for found in figures.values() for lane in found})
matplotlib.rcParams["svg.hashsalt"] = "peers"  # the same figures, the same file
chart, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
height = 0.8 / len(lanes)
for position, lane in enumerate(lanes):
    places = [number + position * height for number in range(len(names))]
    bars = axes.barh(places, [figures[name][str(lane)]["cpu_us"] for name in names], height, label=f"{lane} in flight")
    axes.bar_label(bars, fmt="%.0f", padding=2, fontsize=7)
axes.set_yticks([number + 0.4 - height / 2 for number in range(len(names))], names)
axes.invert_yaxis()
axes.set_xscale("log")
axes.set_xlabel("CPU microseconds per call, logarithmic (less is better)")
axes.legend(fontsize=8)
chart.savefig(target, format="svg", metadata={"Date": None})
