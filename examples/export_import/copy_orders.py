"""Carry a topic from one place to another through a file; doing it twice doubles nothing."""

import subprocess
import sys
import tempfile
from pathlib import Path

import penstock.sync

PENSTOCK = [sys.executable, "-m", "penstock.cli"]


def penstock_command(*words: str) -> None:
    done = subprocess.run([*PENSTOCK, *words], check=True, capture_output=True, text=True)
    print(done.stdout.strip().partition(" to ")[0])


def main() -> None:
    with penstock.sync.connect() as mq, tempfile.TemporaryDirectory() as folder:
        mq.create_topic("orders")
        mq.create_queue("archive")
        for number in (7, 8, 9):
            mq.publish("orders", {"order": number}, key=f"customer-{number}")

        file = str(Path(folder) / "orders.csv")
        penstock_command("message", "export", "orders", "--log", "--output", file)
        penstock_command("message", "import", "archive", file)
        penstock_command("message", "import", "archive", file)

        for message in mq.browse("archive"):
            print(message.key, message.payload)


if __name__ == "__main__":
    main()
