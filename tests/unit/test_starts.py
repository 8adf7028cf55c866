"""What is noted about a start ends with it, also where the start ended after its row did."""

from moorage.containers.models import ReplicaRow
from moorage.containers.reconciler.starts import Starts


def replica(name: str, container_id: str = "ctr_a") -> ReplicaRow:
    return ReplicaRow(id=name, container_id=container_id)


def test_failures_count_until_it_starts() -> None:
    starts, one = Starts(), replica("rep_a")
    assert [starts.note_failure(one), starts.note_failure(one)] == [1, 2]
    starts.note_start(one)
    assert starts.note_failure(one) == 1


def test_of_each_container_only_what_is_yet_to_start_is_kept() -> None:
    starts, kept, over, other = Starts(), replica("rep_a"), replica("rep_b"), replica("rep_c", "ctr_b")
    for one in (kept, over, other):
        starts.note_failure(one)
        starts.note_lack_of_image(one)
    starts.keep_only("ctr_a", {"rep_a"})
    assert [starts.lacks_image(one) for one in (kept, over, other)] == [True, False, True]
    assert [starts.note_failure(one) for one in (kept, over, other)] == [2, 1, 2]


def test_what_ends_after_its_row_goes_with_the_container() -> None:
    starts, late = Starts(), replica("rep_a")
    starts.keep_only("ctr_a", ())
    starts.note_failure(late)
    starts.note_lack_of_image(late)
    starts.forget("ctr_a")
    assert vars(starts) == {"_without_image": {}, "_failed": {}}


def test_what_ends_after_its_process_led_goes_when_it_leads_again() -> None:
    starts, late = Starts(), replica("rep_a")
    starts.note_failure(late)
    starts.note_lack_of_image(late)
    starts.forget_all()
    assert vars(starts) == {"_without_image": {}, "_failed": {}}


def test_an_image_that_came_is_missed_no_more() -> None:
    starts, one = Starts(), replica("rep_a")
    starts.note_image(one)
    starts.note_lack_of_image(one)
    starts.note_image(one)
    assert not starts.lacks_image(one)
