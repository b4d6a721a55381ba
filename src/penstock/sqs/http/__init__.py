"""HTTP: connections, the processes of the server, and the gateway that answers a request."""
