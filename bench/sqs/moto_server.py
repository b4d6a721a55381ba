"""moto's SQS on one thread of waitress; run by the interpreter of moto's own environment.

moto_server answers each request in a thread of its own, and its queues are not made for that: under
load it answers 500.
"""

import sys

from moto.server import DomainDispatcherApplication, create_backend_app
from waitress import serve

serve(
    DomainDispatcherApplication(create_backend_app),
    host="127.0.0.1",
    port=int(sys.argv[1]),
    threads=1,
)
