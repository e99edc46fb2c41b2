"""The command line: `marginals fit`, `query`, `score` and others."""

from marginals.cli.app import app, main

__all__ = ["app", "main"]
