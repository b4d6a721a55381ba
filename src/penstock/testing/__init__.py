"""For the tests of applications: a database per test, a clock to move, handlers run to the end."""

from penstock.testing.databases import Clock, Databases
from penstock.testing.worker_drain import Drained, NotDrained, drain

__all__ = ["Clock", "Databases", "Drained", "NotDrained", "drain"]
