"""A replay takes short cuts; they lead to the same place."""

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.autoscaling.comparison import Question, Stretch, compare
from moorage.autoscaling.decide import Policy, State
from moorage.autoscaling.demand import GatewayTime, History
from moorage.autoscaling.replay import HOUR_S, Bill, Recorded, Windows


@settings(max_examples=30)
@given(
    st.integers(0, 10_000),
    st.lists(st.integers(0, 50).map(float), min_size=1, max_size=3000),
    st.sampled_from([0, 1, 30, 300, 900, 901, 1234, 86_400]),
)
def test_windows_say_what_the_history_says(begins_at: int, levels: list[float], delay_s: int) -> None:
    policy, history = Policy(1, 30, scale_down_delay_s=delay_s), History(begins_at)
    windows = Windows(Recorded(begins_at, levels, ()))
    for second, level in enumerate(levels, begins_at):
        history.add(level)
        if second % 7 == 0:
            said, found = history.samples(policy, ()), windows.samples(policy, second, ())
            assert list(found.per_second) == list(said.per_second)
            assert abs(found.delay_mean - said.delay_mean) < 1e-9


def test_a_minute_is_known_while_all_of_its_seconds_are_kept() -> None:
    history = History(1000)
    for level in range(1200):
        history.add(float(level))
    assert history.mean_of(2100, 60) == sum(range(1100, 1160)) / 60
    assert history.mean_of(1300, 60) == sum(range(300, 360)) / 60
    assert history.mean_of(1299, 60) is None
    assert history.mean_of(2141, 60) is None


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 2 * HOUR_S)), max_size=8))
def test_hours_are_bought_slot_by_slot(stretches: list[tuple[int, int]]) -> None:
    bill, paid_until, bought, at = Bill(), [0] * 6, 0, 1
    for replicas, seconds in stretches:
        for _ in range(seconds):
            bill.second(at, replicas)
            for slot in range(replicas):
                if paid_until[slot] <= at:
                    bought += 1
                    paid_until[slot] = at + HOUR_S
            at += 1
    assert bill.hours_bought == bought
    assert bill.replica_s == sum(replicas * seconds for replicas, seconds in stretches)


def test_a_question_holds_all_that_is_needed() -> None:
    gateway = GatewayTime("g", ((0, 10_000),))
    question = Question(
        policy=Policy(1, 5),
        current=Policy(1, 5),
        since=1000,
        until=2000,
        begins_at=400,
        stretches=(Stretch(1000, 1500, 12.0),),
        seconds_from=1500,
        in_flight={("g", 1600): 40},
        gateways=(gateway,),
        state=State(1),
        made=((1010, 4),),
        startup_s=None,
    )
    found = compare(question)
    assert found.as_it_was.replica_s == 11 + 4 * 990
    assert found.replayed.changed == len(found.replayed.changes) >= 2
    assert found.replayed.changes[0].decision.replicas > 1
