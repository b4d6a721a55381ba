"""Django in one file: an order and its message commit together, or neither does."""

import asyncio
import os

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

found = conninfo_to_dict(os.environ["PENSTOCK_DSN"])
settings.configure(
    INSTALLED_APPS=["penstock.integrations.django"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": found["dbname"],
            "USER": found["user"],
            "HOST": found["host"],
            "PORT": found.get("port", ""),
        }
    },
)
django.setup()

from django.db import connection, transaction  # noqa: E402

import penstock  # noqa: E402
from penstock.integrations.django import client, fresh_connections, publish  # noqa: E402
from penstock.testing import drain  # noqa: E402

worker = penstock.Worker(client())


@worker.handler("orders")
@fresh_connections
def bill(message: penstock.ClaimedMessage) -> None:
    with connection.cursor() as cursor:
        cursor.execute("select article from shop_order where id = %s", [message.payload["order"]])
        print("billed a", cursor.fetchone()[0])
    connection.close()


def place(number: int, article: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        publish("orders", {"order": number})
        cursor.execute("insert into shop_order values (%s, %s)", [number, article])


if __name__ == "__main__":
    with connection.cursor() as setup:
        setup.execute("create table shop_order (id bigint primary key, article text not null)")
        setup.execute("select penstock.create_queue('orders')")
    place(7, "kettle")
    try:
        place(7, "cup")
    except django.db.IntegrityError:
        print("the second order 7 is refused, and so is its message")
    # In production: manage.py penstock_worker
    asyncio.run(drain(worker))
    connection.close()
