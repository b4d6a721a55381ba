"""The topic and the queues that all actors share."""

TOPIC = "orders"
QUEUE = "billing"
"""Gets everything."""
FIFO = "statements"
"""Gets what has a key, in the order of that key."""
# What the filter of the queue in order asks for.
KEYED = {"keyed": True}
