from datetime import UTC, datetime, timedelta

from moorage.entrypoints.backup_retention import backup_name, outdated

NOW = datetime(2026, 11, 19, 2, 0, 3, tzinfo=UTC)


def made(*days_ago: float) -> list[str]:
    return [backup_name(NOW - timedelta(days=days)) for days in days_ago]


def test_a_name_says_when_it_was_made() -> None:
    assert backup_name(NOW) == "moorage-20261119T020003Z.tar.age"


def test_those_that_are_older_go() -> None:
    names = made(*range(20))
    assert outdated(names, NOW, 14) == sorted(made(15, 16, 17, 18, 19))
    assert outdated(names, NOW, 30) == []


def test_the_newest_three_stay_however_old_they_are() -> None:
    assert outdated(made(100, 200, 300), NOW, 14) == []
    assert outdated(made(100, 200, 300, 400), NOW, 14) == made(400)


def test_what_is_not_named_like_a_backup_is_left_alone() -> None:
    others = [
        "moorage.dump",
        "moorage-2020.tar.age",
        "photos.tar.age",
        ".moorage-20200101T000000Z.tar.age.new",
    ]
    assert outdated([*others, *made(1, 2, 3)], NOW, 1) == []
