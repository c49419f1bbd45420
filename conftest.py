"""Runs the examples of the README, the documentation and the docstrings: each file is one test, read from the top."""

import contextlib
from collections.abc import Iterator
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sybil import Sybil
from sybil.example import Example, SybilFailure
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

# The files that the examples speak of.
SAMPLES = {
    "proteins.fa": (
        b">seq_1 a first enzyme\nMTKIALSDFGHKQWERTYIP\nMKVLAAGIVGLCA\n"
        b">seq_2 a kinase\nMKVLAAGIVGLCAKAY\n"
        b">seq_3\nMKTAY\n"
    ),
    # b"first", b"second" and b"the third", as TensorFlow writes them.
    "train.tfrecord": bytes.fromhex(
        "0500000000000000eab2043e666972737455ff23e5"
        "06000000000000007369d5377365636f6e64d3e0d3ca"
        "090000000000000037f971397468652074686972641165db74"
    ),
    # {"x": [k + 0.5, k + 1.5], "label": k, "name": ...} for k from 0 to 2, as Examples.
    "examples.records": bytes.fromhex(
        "3800000000000000a3797d570a360a110a0178120c120a0a080000003f0000c03f0a0e0a056c6162656c12051a030a01000a110a04"
        "6e616d6512090a070a056669727374a9bf5aa039000000000000008b0737f10a370a110a0178120c120a0a080000c03f000020400a"
        "0e0a056c6162656c12051a030a01010a120a046e616d65120a0a080a067365636f6e64f373f0283800000000000000a3797d570a36"
        "0a110a0178120c120a0a0800002040000060400a0e0a056c6162656c12051a030a01020a110a046e616d6512090a070a0574686972"
        "640d5b835e"
    ),
    "genome.fa": b">chr1 a chromosome\nACGTATGNNACC\nGGTTAACCGGTT\nACG\n>chr2\nGGATTTACA\n",
}

FLAGS = ELLIPSIS | NORMALIZE_WHITESPACE
DOCUMENTS = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=FLAGS), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
)
DOCSTRINGS = Sybil(
    parsers=[DocTestParser(FLAGS)],
    patterns=["python/seekset/*.py", "python/seekset/*/*.py", "python/seekset/*/*/*.py"],
)


class ExampleFile(pytest.File):
    """A file with examples. They build on each other, so that they can't be parted between workers."""

    def collect(self) -> Iterator[pytest.Item]:
        """Give one test for all examples; none for a file without."""
        sybil = DOCSTRINGS if self.path.suffix == ".py" else DOCUMENTS
        examples = list(sybil.parse(self.path).examples())
        if examples:
            yield Examples.from_parent(self, name="examples", examples=examples)


class Examples(pytest.Item):
    """All examples of one file, run one after another in a folder with the sample files."""

    def __init__(self, *, examples: list[Example], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.examples = examples

    def runtest(self) -> None:
        """Run them until one fails."""
        with TemporaryDirectory() as folder, contextlib.chdir(folder):
            for name, content in SAMPLES.items():
                Path(name).write_bytes(content)
            for example in self.examples:
                example.evaluate()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what was expected and what came, without the machinery's traceback."""
        if isinstance(excinfo.value, SybilFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Name the file."""
        return self.path, self.examples[0].line, f"{self.path.name}: examples"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.File | None:
    """Take files that may have examples."""
    if DOCUMENTS.should_parse(file_path) or DOCSTRINGS.should_parse(file_path):
        return ExampleFile.from_parent(parent, path=file_path)
    return None
