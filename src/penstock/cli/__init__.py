"""The command line: `penstock <noun> <verb>`."""

from penstock.cli.app import main

__all__ = ["main"]
