-- Remove Penstock from this database, with every topic, queue and message: psql "$DSN" -f sql/uninstall.sql
-- The roles belong to the whole cluster and stay; where no other database uses them, drop them by hand.
\set ON_ERROR_STOP on
set client_min_messages = warning;
begin;
drop schema if exists pgqs cascade;
drop schema if exists pgqs_data cascade;
drop schema if exists penstock_stage cascade;
drop schema if exists penstock cascade;
drop schema if exists penstock_data cascade;
commit;
reset client_min_messages;
