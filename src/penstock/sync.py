"""The client without `await`: `penstock.sync.connect()` gives what `penstock.connect()` gives.

Its methods have the same names, arguments and answers; many threads may share one client.
"""

from penstock.client._sync.client import Client, connect
from penstock.client._sync.consumer import Consumer
from penstock.client._sync.message import Message

__all__ = ["Client", "Consumer", "Message", "connect"]
