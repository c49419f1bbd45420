"""The version that is installed: in a module of its own, because asking for it takes longer than all other imports."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("seekset")
