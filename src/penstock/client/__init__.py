"""The client: calls as plain values, and the connections that run them."""
