"""Django: publish in the transaction of the request, handle with `manage.py penstock_worker`.

INSTALLED_APPS = [..., "penstock.integrations.django"]
PENSTOCK = {"WORKER": "shop.messages:worker"}

with transaction.atomic():
    order.save()
    publish("orders", {"order": order.pk})        # exists when the block commits, and only then
"""

from penstock.extras import needs

with needs("django"):
    from penstock.integrations.django.configuration import client, dsn
    from penstock.integrations.django.messages import fresh_connections, publish, publish_many

__all__ = ["client", "dsn", "fresh_connections", "publish", "publish_many"]
