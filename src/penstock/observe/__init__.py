"""What goes on: events, and the logs, metrics, traces and health that stand on them."""

from penstock.observe.events import Event, Name, Subscription, emit, subscribe

__all__ = ["Event", "Name", "Subscription", "emit", "subscribe"]
