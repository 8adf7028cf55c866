"""The world that browsers see, where a test of a page would not notice that it is wrong."""

from datetime import datetime, timedelta

import pytest

from tests.browser.world import World


def test_what_fails_at_another_moment_leaves_those_that_follow_in_their_own(world: World) -> None:
    def told() -> datetime:
        [[moment]] = world.do(world.api.rows("SELECT now()"))
        assert isinstance(moment, datetime)
        return moment

    began = world.now()
    with pytest.raises(ZeroDivisionError), world.at(began - timedelta(days=9)):
        raise ZeroDivisionError
    assert min(world.now(), told()) >= began
