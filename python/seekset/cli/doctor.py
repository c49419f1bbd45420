"""``seekset doctor``."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from seekset.cli.options import common_options
from seekset.cli.parts import PARTS
from seekset.cli.terminal import say, show_json, show_table
from seekset.numbers import octets

# How long torch may take to say what it sees: on a cold disk, its import alone takes a minute.
_PATIENCE = 120.0
_NEEDED = ("seekset", "numpy", "click", "rich")
_TOOLS = ("bgzip", "samtools", "nvidia-smi")
_ASK_TORCH = """
import json, torch
gpus = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
print(json.dumps({"cuda": torch.version.cuda, "gpus": gpus, "threads": torch.get_num_threads()}))
"""


@click.command(name="doctor")
@common_options()
def command(as_json: bool, quiet: bool) -> None:
    """Show versions, threads, devices and optional parts.

    What is missing is told with what installs it. The exit code is 0 unless seekset itself can't work here.
    """
    facts: dict[str, Any] = {
        "versions": _versions(),
        "extension": _extension(),
        "machine": _machine(),
        "threads": _threads(),
        "memory": _memory(),
        "free": _free(),
        "devices": _devices(),
        "parts": _parts(),
        "tools": {tool: shutil.which(tool) for tool in _TOOLS},
    }
    if as_json:
        show_json(facts)
    elif not quiet:
        _show(facts)
    if (reason := facts["extension"]["error"]) is not None:
        say(f"the extension can't be loaded: {reason}; install seekset again: pip install --force-reinstall seekset")
        click.get_current_context().exit(1)


def _versions() -> dict[str, str | None]:
    return {"python": platform.python_version(), **{name: _version(name) for name in _NEEDED}}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _extension() -> dict[str, Any]:
    """Where the compiled part is, how large, and whether it loads."""
    try:
        from seekset import _core
    except Exception as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
        return {"path": None, "bytes": None, "error": f"{type(error).__name__}: {error}"}
    path = Path(str(_core.__file__))
    return {"path": str(path), "bytes": path.stat().st_size, "error": None}


def _machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "processor": platform.machine(),
        "avx2": _has_avx2(),
        "python": sys.executable,
    }


def _has_avx2() -> bool | None:
    """Whether token tables are looked up by shuffles; unknown where the system does not tell."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("flags"):
                return "avx2" in line.split()
    return None


def _threads() -> dict[str, Any]:
    """How many threads work, and how many cores there are for them."""
    used = None
    with suppress(Exception):
        from seekset._core import threads

        used = threads()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "seekset": used,
        "SEEKSET_THREADS": os.environ.get("SEEKSET_THREADS"),
        "usable_cores": usable,
        "cores": os.cpu_count(),
    }


def _memory() -> dict[str, int | None]:
    """Bytes of memory: all, what may be had, what of files is in it, and what a container allows."""
    found: dict[str, int] = {}
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, number = line.partition(":")
            found[name] = int(number.split()[0]) * 1024
    limit = None
    with suppress(OSError, ValueError):
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    names = {"total": "MemTotal", "available": "MemAvailable", "page_cache": "Cached"}
    return {**{name: found.get(key) for name, key in names.items()}, "container_limit": limit}


def _free() -> dict[str, dict[str, Any]]:
    """Free bytes where seekset writes beside the files that it is given."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "seekset"  # noqa: PTH111 (raises without a home)
    places = {"temporary files": Path(tempfile.gettempdir()), "cache": cache, "shared memory": Path("/dev/shm")}  # noqa: S108 (it is looked at only)
    return {name: {"path": str(path), "free": _free_bytes(path)} for name, path in places.items()}


def _free_bytes(path: Path) -> int | None:
    """What is free in a folder, or where it would be made."""
    for place in (path, *path.parents):
        # One that is not there, or may not be looked at, is in another.
        with suppress(OSError):
            return shutil.disk_usage(place).free
    return None


def _devices() -> dict[str, Any]:
    """The GPUs that `seekset embed` would use, and what torch sees, asked in a process of its own."""
    from importlib.util import find_spec

    from seekset.inference.devices import find_gpus

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    facts: dict[str, Any] = {"gpus": find_gpus(), "CUDA_VISIBLE_DEVICES": visible, "torch": None, "torch_error": None}
    if find_spec("torch") is None:
        return facts
    try:
        told = subprocess.run(  # noqa: S603 (this very Python)
            [sys.executable, "-c", _ASK_TORCH], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {**facts, "torch_error": str(error)}
    if told.returncode:
        last = (told.stderr.strip().splitlines() or [f"exit code {told.returncode}"])[-1]
        return {**facts, "torch_error": last}
    import json

    return {**facts, "torch": json.loads(told.stdout.splitlines()[-1])}


def _parts() -> list[dict[str, Any]]:
    return [
        {"part": part.module, "version": part.version, "extra": part.extra, "purpose": part.purpose} for part in PARTS
    ]


def _show(facts: dict[str, Any]) -> None:
    for section, rows in (
        ("versions", facts["versions"]),
        ("machine", _machine_rows(facts)),
        ("threads", {name.replace("_", " ") if name.islower() else name: v for name, v in facts["threads"].items()}),
        ("memory", {name.replace("_", " "): _bytes(number) for name, number in facts["memory"].items()}),
        ("free", {name: f"{_bytes(one['free'])} in {one['path']}" for name, one in facts["free"].items()}),
        ("devices", _device_rows(facts["devices"])),
        ("tools", {name: path or "not found" for name, path in facts["tools"].items()}),
    ):
        show_table((section, ""), [(name, "-" if value is None else str(value)) for name, value in rows.items()])
        click.echo()
    remedy = "not found: pip install 'seekset[{}]'"
    parts = [
        (one["part"], one["version"] or remedy.format(one["extra"]), f"seekset[{one['extra']}]", one["purpose"])
        for one in facts["parts"]
    ]
    show_table(("optional part", "version", "extra", "for"), parts)


def _machine_rows(facts: dict[str, Any]) -> dict[str, Any]:
    extension = facts["extension"]
    loaded = "can't be loaded" if extension["path"] is None else f"{extension['path']}, {_bytes(extension['bytes'])}"
    return {
        **facts["machine"],
        "avx2": {True: "yes", False: "no", None: None}[facts["machine"]["avx2"]],
        "extension": loaded,
    }


def _device_rows(devices: dict[str, Any]) -> dict[str, Any]:
    torch = devices["torch"]
    if devices["torch_error"] is not None:
        seen = f"can't say: {devices['torch_error']}"
    elif torch is None:
        seen = "not installed"
    else:
        built = f"CUDA {torch['cuda']}" if torch["cuda"] else "without CUDA"
        seen = f"built {built}, sees {', '.join(torch['gpus']) or 'no GPU'}"
    return {
        "GPUs for embed": ", ".join(devices["gpus"]) or "none: it runs on the processor",
        "CUDA_VISIBLE_DEVICES": devices["CUDA_VISIBLE_DEVICES"],
        "torch": seen,
    }


def _bytes(number: int | None) -> str | None:
    return None if number is None else octets(number)
