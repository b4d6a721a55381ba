"""The stores: tasks on PostgreSQL, on MySQL and MariaDB, and in memory."""
