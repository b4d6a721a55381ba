"""Tasks in this process's memory: for tests of code that enqueues or handles tasks."""

from penstock.tasks.memory.store import MemoryTaskStore

__all__ = ["MemoryTaskStore"]
