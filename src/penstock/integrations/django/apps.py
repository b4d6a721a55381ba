"""The Django application."""

from __future__ import annotations

from django.apps import AppConfig


class PenstockConfig(AppConfig):
    """Brings the management command `penstock_worker`; it has no tables of its own."""

    name = "penstock.integrations.django"
    label = "penstock"
    verbose_name = "Penstock"
