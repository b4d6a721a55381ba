"""Tasks on PostgreSQL, by psycopg."""

from penstock.tasks.postgres.store import PostgresTaskStore

__all__ = ["PostgresTaskStore"]
