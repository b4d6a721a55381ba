"""Penstock: a message queue that lives in PostgreSQL."""

__version__ = "0.1.0"
