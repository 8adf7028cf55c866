"""Alembic's environment: one connection, handed in by `entrypoints.migrate`."""

from alembic import context

from moorage.entrypoints.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, compare_type=True
)
with context.begin_transaction():
    context.run_migrations()
