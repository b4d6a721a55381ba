"""Tasks on MySQL 8 and MariaDB 10.6+, by asyncmy."""

from penstock.tasks.mysql.store import MySQLTaskStore

__all__ = ["MySQLTaskStore"]
