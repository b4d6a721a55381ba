"""The SQS server: Amazon SQS's two protocols in front of the engine's queues.

A request goes down this list, its answer back up:

- `http`: connections, processes, and the gateway, which answers one request
- `auth`: who sends a request, and whether the sender may
- `protocol`: requests and answers as JSON and as forms and XML; queue names; faults
- `backend`: calls into the engine, batches of them, and long polls
"""
