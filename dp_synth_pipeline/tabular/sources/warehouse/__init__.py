"""Tables behind a driver: PostgreSQL, Delta Lake, Snowflake, BigQuery; read in Arrow batches, replaced atomically.

Belongs here: connection arguments, SQL and types of each engine. Does not belong here: what a column means.
Drivers are optional extras, imported when used.
"""
