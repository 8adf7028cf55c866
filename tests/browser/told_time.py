"""The time that a world's database tells: the clock's, or another one that it was told. So a story can be written down as it
happened, and pictures of it show one moment."""

from datetime import datetime

import asyncpg

from moorage.kit.clock import SystemClock

_BEFORE_THE_TABLES = """
CREATE SCHEMA told;
CREATE TABLE told.time (at timestamptz);
INSERT INTO told.time VALUES (NULL);
CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT coalesce((SELECT at FROM told.time), pg_catalog.now())';
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT coalesce((SELECT at FROM told.time), pg_catalog.clock_timestamp())';
ALTER ROLE CURRENT_USER SET search_path = public, pg_catalog;
"""
"""What is found first is called, also by the tables' defaults, which are made afterwards."""
TELL = "UPDATE told.time SET at = :at"


async def can_be_told_the_time(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(_BEFORE_THE_TABLES)
    finally:
        await connection.close()


class ToldClock(SystemClock):
    """The same for the processes before it."""

    def __init__(self) -> None:
        self.at: datetime | None = None

    def now(self) -> datetime:
        return self.at or super().now()
