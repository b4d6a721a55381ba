"""The state machines of the tests, played by the thousand through every door."""
