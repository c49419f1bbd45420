"""What an import does: nothing that takes time, and, where a package is missing, a sentence that names the extra."""

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import seekset

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"

# Makes a package look as if it were not installed.
WITHOUT = """
import sys, importlib.abc

class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in sys.argv[1].split(",") else found(name, package)
sys.meta_path.insert(0, Without())
"""

ATTEMPT = """
from seekset.errors import SeeksetError
try:
    exec(sys.argv[2])
except SeeksetError as error:
    print(error)
"""


def test_importing_seekset_imports_no_package_opens_no_file_and_starts_no_thread(run):
    printed = run(
        """
        import os, sys, threading
        opened = []
        before = set(sys.modules)
        sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" else None)
        import seekset
        imported, files = {name.partition(".")[0] for name in set(sys.modules) - before}, list(map(str, opened))
        print(imported - sys.stdlib_module_names)
        print([name for name in sys.modules if name.startswith("seekset.")])
        print([path for path in files if not path.endswith((".py", ".pyc"))])
        print(threading.active_count(), len(os.listdir("/proc/self/task")))
        """
    )
    assert printed == "{'seekset'}\n['seekset.lazy']\n[]\n1 1\n"


def test_what_is_imported_at_first_use_starts_no_threads(run):
    printed = run(
        """
        import os, sys
        from seekset import Fasta, Plan, SequenceIndex, TFRecordFile, TFRecordWriter, WindowPlan
        from seekset import _core, inference, shards
        print(sorted({"torch", "h5py", "pyarrow", "matplotlib", "ray", "transformers"} & set(sys.modules)))
        print(len(os.listdir("/proc/self/task")))
        """,
        # numpy's own threads are not seekset's.
        OPENBLAS_NUM_THREADS="1",
    )
    assert printed == "[]\n1\n"


@pytest.mark.parametrize(
    "package, extra, source",
    [
        ("torch", "torch", "import seekset.datasets"),
        ("torch", "torch", "from seekset.datasets import PackedDataset"),
        ("torch", "torch", "import seekset.loading"),
        ("lightning", "eden", "from seekset.datasets import ShardedEdenDataModule"),
        ("nvidia.dali", "dali", "import seekset.dali"),
        ("h5py", "inference", "from seekset.inference.hdf5 import import_h5py; import_h5py()"),
        ("h5py", "inference", "from seekset.inference import *; run_multi_gpu_inference(['x.fa'], 'out', {})"),
        ("torch", "inference", "from seekset.inference.encoders.huggingface import *; HuggingFaceEncoder('a/b')"),
        ("ray", "ray", "from seekset.inference.backends.ray import connect; connect(None)"),
        ("matplotlib", "plot", "from seekset.quality import *; plot(measure([0, 1], [0, 0], [0, 1]), 'x.png')"),
        ("pyarrow", "eden", "from seekset import *; precompute_window_database('x.parquet', 'x.sqlite', 8, 8)"),
    ],
)
def test_a_missing_package_is_an_error_that_names_the_extra(run, names, package, extra, source):
    assert f"pip install 'seekset[{extra}]'" in run(f"{WITHOUT}\n{ATTEMPT}", package, source)
    assert names() == ["program.py"]  # nothing was begun


def test_a_picture_is_refused_before_anything_is_done_where_matplotlib_is_missing(run, names, write):
    write(b">a\nACGT\n", "p.fa")
    command = "from seekset.cli import cli; cli(['stats', 'p.fa', '--plot', 'x.png'], standalone_mode=False)"
    printed = run(f"{WITHOUT}\n{ATTEMPT}", "matplotlib", command)
    assert printed == "--plot needs matplotlib: pip install 'seekset[plot]'\n"
    assert names() == ["p.fa", "program.py"]


def test_that_error_is_both_an_import_error_and_one_of_ours():
    assert issubclass(seekset.MissingExtraError, seekset.SeeksetError)
    assert issubclass(seekset.MissingExtraError, ModuleNotFoundError)


def test_every_extra_that_errors_name_is_there_and_all_has_them():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    code = "".join(path.read_text() for path in Path(seekset.__file__).parent.rglob("*.py"))
    named = {*re.findall(r"pip install 'seekset\[([a-z]+)\]'", code)}
    named |= {*re.findall(r'\b(?:missing|require)\([^()]*"([a-z]+)"\)', code)}
    assert named <= set(extras)
    (everything,) = extras["all"]
    assert everything == f"seekset[{','.join(sorted(set(extras) - {'all'}))}]"


@pytest.mark.parametrize("package", ["seekset", "seekset.datasets", "seekset.inference", "seekset.shards"])
def test_every_public_name_can_be_imported_and_is_listed(run, package):
    printed = run(
        """
        import importlib, sys
        package = importlib.import_module(sys.argv[1])
        print({*package.__all__, "__all__"} <= {*dir(package)}, sorted(vars(package).keys() & package.__all__))
        print([name for name in package.__all__ if getattr(package, name) is not vars(package)[name]])
        print(sorted({*package._HOMES} ^ {*package.__all__}))
        try:
            package.nothing
        except AttributeError as error:
            print(error)
        """,
        package,
    )
    beside = "['__version__']" if package == "seekset" else "[]"
    assert printed == f"True []\n[]\n{beside}\nmodule '{package}' has no attribute 'nothing'\n"


def test_type_checkers_see_every_name_where_it_is_imported():
    """Of `if TYPE_CHECKING:`, which nothing runs."""
    for package in (
        seekset,
        *map(importlib.import_module, ("seekset.datasets", "seekset.inference", "seekset.shards")),
    ):
        tree = ast.parse(Path(package.__file__).read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.col_offset]
        seen = {alias.name: node.module for node in imports for alias in node.names}
        assert seen == {name: home for name, home in package._HOMES.items() if name != "__version__"}
