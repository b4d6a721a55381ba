"""Take the pictures of the dashboard that the documentation shows: docs/pictures/dashboard-*.png.

    python tools/dashboard_pictures.py

A small shop runs on a private PostgreSQL for half a minute, and a real Chromium looks at it.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from penstock import schema  # noqa: E402
from penstock.embedded import installation  # noqa: E402
from penstock.testing.server import running  # noqa: E402
from tests.browser import browsers  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
QUEUES = (
    ("billing", "standard"),
    ("warehouse", "fifo"),
    ("mails", "standard"),
    ("fraud-check", "fair"),
)
# Queue, token, share of failures, seconds a batch takes, size of a batch.
WORKERS = (
    ("billing", "billing-1", 0.0, 0.05, 10),
    ("billing", "billing-2", 0.0, 0.08, 10),
    ("warehouse", "warehouse-1", 0.0, 0.1, 5),
    ("mails", "mailer-1", 0.04, 0.12, 6),
    ("fraud-check", "fraud-1", 0.0, 0.5, 2),
)
ERROR = "ConnectionError: smtp.example.com refused the connection"
WARM_UP_SECONDS = 25


def build(db: psycopg.Connection[Any]) -> None:
    schema.install(db)
    for name, ordering in QUEUES:
        db.execute(
            "select penstock.create_queue(%s, 'orders', ordering => %s, "
            "max_delivery_attempts => 2, retry_base_seconds => 1)",
            (name, ordering),
        )
    db.execute("select penstock.create_queue('reports')")
    db.execute("select penstock.publish_message('reports', '1')")
    db.execute("select penstock.pause_queue('reports')")


def publish(dsn: str, ended: threading.Event) -> None:
    number = 0
    with psycopg.connect(dsn, autocommit=True) as db:
        while not ended.is_set():
            orders = range(number, number + random.randint(1, 8))
            db.execute(
                "select penstock.publish_messages('orders', %s::jsonb[], keys => %s)",
                (
                    [json.dumps({"order": each, "total": each % 90}) for each in orders],
                    [f"customer-{each % 17}" for each in orders],
                ),
            )
            number = orders.stop
            ended.wait(random.random() * 0.3)


def work(dsn: str, ended: threading.Event, worker: tuple[str, str, float, float, int]) -> None:
    queue, token, failures, seconds, size = worker
    with psycopg.connect(dsn, autocommit=True) as db:
        while not ended.is_set():
            rows = db.execute(
                "select message_id from penstock.consume_messages_batch(%s, %s, 30, %s)",
                (queue, token, size),
            ).fetchall()
            if not rows:
                db.execute("select penstock.start_waiting(%s, 5, %s)", (queue, token))
            ended.wait(seconds * 2 * random.random() if rows else 0.3)
            for (message,) in rows:
                if random.random() < failures:
                    db.execute(
                        "select penstock.nack_message(%s, %s, %s, error => %s)",
                        (queue, message, token, ERROR),
                    )
                else:
                    db.execute("select penstock.ack_message(%s, %s, %s)", (queue, message, token))


def take(browser: Browser, address: str) -> None:
    """Log in, watch for a while, then take each page in each theme."""
    for theme, width in (("light", 1280), ("dark", 1280), ("dark", 390)):
        window = browser.new_context(
            base_url=address, color_scheme=theme, viewport={"width": width, "height": 860}
        )
        page = window.new_page()
        page.goto("/login")
        page.fill("#token", browsers.OPERATOR)
        page.press("#token", "Enter")
        page.wait_for_selector("#pulse[data-state=live]")
        if theme == "light":
            time.sleep(WARM_UP_SECONDS)
        name = f"dashboard-{'phone' if width < 1000 else theme}.png"
        page.screenshot(path=PICTURES / name)
        print(f"took {name}")
        if (theme, width) == ("light", 1280):
            page.goto("/queue?name=mails&state=dead")
            page.wait_for_selector("#pulse[data-state=live]")
            time.sleep(WARM_UP_SECONDS / 2)
            page.screenshot(path=PICTURES / "dashboard-queue.png")
            print("took dashboard-queue.png")
        window.close()


def main() -> int:
    program = browsers.program()
    if program is None:
        print("chromium is not installed: apt install chromium", file=sys.stderr)
        return 1
    PICTURES.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        server = stack.enter_context(running("pictures", installation.packaged()))
        server.administer("create database shop")
        dsn = server.dsn("shop")
        with psycopg.connect(dsn, autocommit=True) as db:
            build(db)
        ended = threading.Event()
        threads = [threading.Thread(target=publish, args=(dsn, ended))]
        threads += [threading.Thread(target=work, args=(dsn, ended, each)) for each in WORKERS]
        for thread in threads:
            thread.start()
        try:
            address = stack.enter_context(browsers.serving(dsn))
            driver = stack.enter_context(sync_playwright())
            take(driver.chromium.launch(executable_path=program, args=["--no-sandbox"]), address)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
