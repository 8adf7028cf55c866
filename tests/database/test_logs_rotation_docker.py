"""An engine keeps output in files of a limited size, and exchanges them while they are read."""

import pytest
from log_support import OURS, new_world
from test_logs_docker import engine as engine
from test_logs_docker import follow_to_the_end, start
from test_logs_docker import installation_id as installation_id

from moorage.engines.docker.engine import DockerEngine
from moorage.engines.profile import LOG_FILE_BYTES
from moorage.kit.database import Database

LINE_BYTES = 8000


@pytest.mark.long
async def test_the_engine_exchanges_its_files_under_the_reader(
    database: Database, engine: DockerEngine, busybox_image: str
) -> None:
    """It may misread them in that moment and break off. Every line is there, or told of in its place, and none twice."""
    world = await new_world(database)
    lines = LOG_FILE_BYTES // LINE_BYTES + 500
    script = f"i=0; while [ $i -lt {lines} ]; do printf '%0{LINE_BYTES}d\\n' $i; i=$((i+1)); done"
    source = await start(engine, world, busybox_image, script)
    await follow_to_the_end(world, engine, source)
    expected = told = stored = 0
    for one in await world.stored(source.replica_id):
        if one.stream == OURS:
            assert "lines dropped here" in one.text, "what is missing is counted"
            # At least so many: the engine may have given us some twice while we dropped them.
            told += int(one.text.split()[0])
        else:
            number = int(one.text[-8:])
            assert expected <= number <= expected + told, "none twice, and those that are missing are told of"
            expected, told, stored = number + 1, 0, stored + 1
    assert expected <= lines <= expected + told
    print(f"{lines} lines over more than one file: {stored} stored, {lines - stored} told of, 0 lost")
