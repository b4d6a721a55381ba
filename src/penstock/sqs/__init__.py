"""The SQS door: Amazon SQS's two protocols in front of the engine's queues."""
