"""check, bench and compare: measurements in a process of their own, and their results as tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any, Iterable, Mapping, Sequence

from . import _errors
from ._errors import ConfigError, Error, RunError
from ._layers import json_text, whole_numbers

Names = "str | Sequence[str] | None"


class Results(dict):
    """The results as the applications' JSON has them (docs/benchmarking.md), and tables of them."""

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each implementation (or arm) of each layer and pass."""
        if "layers" in self:  # compare
            return [row for batch in self["layers"] or [] for row in _rows(batch, self)]
        return _rows(self, self)

    @property
    def ok(self) -> bool:
        """Whether no implementation that was examined is wrong, and every file of kernels could be compiled."""
        broken = any(each.get("broken") for row in self.get("rows") or [] for each in row.get("unsupported") or [])
        return not broken and not any(row["agrees"] is False for row in self.rows())

    def frame(self) -> Any:
        """rows() as a pandas DataFrame. Raises ImportError without pandas."""
        import pandas

        return pandas.DataFrame(self.rows())

    def __str__(self) -> str:
        rows = self.rows()
        if not rows:
            return "(no rows)"
        shown = [name for name in _SHOWN if any(row.get(name) not in (None, "") for row in rows)]
        cells = [shown] + [[_cell(row.get(name)) for name in shown] for row in rows]
        widths = [max(len(line[i]) for line in cells) for i in range(len(shown))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in cells)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        import html

        rows = self.rows()
        shown = [name for name in _SHOWN if any(row.get(name) not in (None, "") for row in rows)]
        head = "".join(f"<th>{name}</th>" for name in shown)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(row.get(name)))}</td>" for name in shown) + "</tr>"
            for row in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_SHOWN = ("arm", "layer", "type", "problem", "pass", "implementation", "agrees", "share_of_limit", "us", "speedup",
          "verdict", "fault")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _rows(part: Mapping[str, Any], results: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = [arm.get("name", "") for arm in results.get("arms") or []]
    rows = []
    for row in part.get("rows") or []:
        ratios = {ratio["a"]: ratio for ratio in row.get("ratios") or []}
        for place, arm in enumerate(row.get("arms") or []):
            if arm is None:
                continue
            shares = [t["share_of_limit"] for t in arm.get("tensors") or [] if t.get("share_of_limit") is not None]
            faults = arm.get("faults") or []
            ratio = ratios.get(place, {})
            rows.append({
                "arm": names[place] if place < len(names) else None,
                "layer": row.get("layer"), "type": row.get("type"), "problem": row.get("problem"),
                "pass": row.get("pass"), "implementation": arm.get("implementation"),
                "agrees": arm.get("agrees"), "share_of_limit": max(shares, default=None),
                "us": (arm.get("us") or {}).get("median"),
                "cold_us": (arm.get("cold_us") or {}).get("median"),
                "speedup": ratio.get("speedup"), "low": ratio.get("low"), "high": ratio.get("high"),
                "verdict": ratio.get("verdict"), "floor_us": row.get("floor_us"),
                "gflop_per_s": arm.get("gflop_per_s"), "gb_per_s": arm.get("gb_per_s"),
                "workspace_bytes": arm.get("workspace_bytes"), "detail": arm.get("detail"),
                "fault": faults[0].get("text") if faults else None,
            })
    return rows


def bench(layer: str = "", shape: str = "", *, config: str | os.PathLike[str] = "", impl: Any = None,
          passes: Any = None, batch: Any = None, math: str = "", device: str = "", quick: bool = False,
          cold: bool = False, verbose: bool = False) -> Results:
    """Implementations of a layer side by side: whether each is right, then how fast it is, as the application
    `bench` does it and with its words.

    >>> duet.bench("conv2d", "n=64,c=64,h=13,w=13,k=128,r=3,s=3", impl=["custom", "cudnn"]).frame()

    `config` (the layers of a network's YAML file) stands in the place of `layer` and `shape`. `impl`: families and
    ids; `passes`: forward, backward, backward_data, backward_filter; `batch`: 64 or "1..1024x2"; None is all. An
    implementation that crashes, hangs or is wrong is a row with a fault; it never ends this process.
    """
    return _bench(layer, shape, config, impl, passes, batch, math, device, quick, cold, False, verbose)


def check(layer: str = "", shape: str = "", *, config: str | os.PathLike[str] = "", impl: Any = None,
          passes: Any = None, batch: Any = None, math: str = "", device: str = "",
          verbose: bool = False) -> Results:
    """The first half of bench(): whether implementations are right, without times. `.ok` sums it up.

    >>> assert duet.check("conv2d", "n=2,c=3,h=9,w=9,k=4,r=3,s=3").ok
    """
    return _bench(layer, shape, config, impl, passes, batch, math, device, True, False, True, verbose)


def _bench(layer: str, shape: str, config: Any, impl: Any, passes: Any, batch: Any, math: str, device: str,
           quick: bool, cold: bool, check_only: bool, verbose: bool) -> Results:
    config = os.fspath(config)
    if bool(layer) == bool(config):
        raise ConfigError("name a layer and its shape, or config=FILE")
    if layer and not shape:
        raise ConfigError(f"{layer} needs a shape, e.g. 'n=64,c=64,h=13,w=13,...'")
    if device not in ("", "cpu", "gpu"):
        raise ConfigError(f"device '{device}': expected cpu or gpu")
    return _measure("run_bench", {
        "layer": layer, "shape": shape, "config": config, "batch": _words(batch), "math": math,
        "impls": _list(impl), "passes": _list(passes), "device": device, "quick": quick, "cold": cold,
        "check_only": check_only, "command": "duet.check(...)" if check_only else "duet.bench(...)",
    }, verbose)


def compare(config: str | os.PathLike[str], *arms: str, set: Mapping[str, Any] | Sequence[str] = (),
            only: Any = None, batch: Iterable[int] | int = (), seeds: int | None = None,
            epochs: int | None = None, data: str | os.PathLike[str] = "", quick: bool = False,
            report: str | os.PathLike[str] = "", verbose: bool = False) -> Results:
    """Two or more ways to compute one network, as the application `compare` does it: layers, training, throughput.

    `arms`: families, ids or YAML files (default: custom and cudnn, without a GPU cpu_blas and cpu_reference);
    `set`: {"data.batch": 16}; `only`: sections; `report`: a file for the page.
    """
    assignments = [f"{k}={v}" for k, v in set.items()] if isinstance(set, Mapping) else list(set)
    batches = list(whole_numbers(batch))
    return _measure("run_compare", {
        "config": os.fspath(config), "arms": list(arms), "assignments": assignments, "only": _list(only),
        "batches": batches, "seeds": seeds, "epochs": epochs, "data": os.fspath(data), "quick": quick,
        "report": os.fspath(report), "command": "duet.compare(...)",
    }, verbose)


def _list(names: Any) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def _words(batch: Any) -> str:
    if batch is None:
        return ""
    return batch if isinstance(batch, str) else ",".join(map(str, whole_numbers(batch)))


def _measure(function: str, options: dict[str, Any], verbose: bool) -> Results:
    """In a process that has nothing but Duet in it: measurements fork, which threads and CUDA of this process
    would not survive, and an implementation that crashes ends a process of its own alone."""
    from . import _kernel_paths

    request = {"function": function, "kernels": _kernel_paths, "options": {**options, "quiet": not verbose}}
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
        p for p in (package, os.environ.get("PYTHONPATH", "")) if p)}
    child = subprocess.Popen([sys.executable, "-m", "duet._measure", json_text(request)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=None if verbose else subprocess.PIPE, text=True, env=environment)
    try:
        out, err = child.communicate()
    except BaseException:  # Ctrl-C: the child writes what is finished, and nobody waits for it
        child.send_signal(signal.SIGINT)
        child.wait()
        raise
    text = (err or "").strip()
    if child.returncode in (0, 3, 4):  # a file cannot be compiled, or an implementation is wrong: its row says so
        if text and child.returncode == 0:
            print(text, file=sys.stderr)  # warnings
        return Results(json.loads(out))
    raise _error(child.returncode, text)


def _error(code: int, text: str) -> Error:
    lines = text.splitlines()
    if lines and lines[-1].startswith("{"):
        told = json.loads(lines[-1])
        return getattr(_errors, told["error"])(told["message"])
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return RunError(f"the measuring process ended {how}" + (f": {text}" if text else ""))
