from moorage.entrypoints.api_counts import ApiCounts
from moorage.kit.exposition import Family, Value, exposition


def test_format() -> None:
    family = Family(
        "moorage_x", "gauge", "What it is.", [Value(1.5, {"a": 'quote " back \\ line\nend'}), Value(2)]
    )
    assert exposition([family]) == (
        "# HELP moorage_x What it is.\n# TYPE moorage_x gauge\n"
        'moorage_x{a="quote \\" back \\\\ line\\nend"} 1.5\nmoorage_x{} 2\n'
    )


def test_a_histogram_adds_up() -> None:
    counts = ApiCounts()
    for duration_s in (0.001, 0.005, 0.006, 0.2, 100):
        counts.count("GET", "/x", 200, duration_s)
    requests, durations = counts.families()
    assert requests.values == [Value(5, {"method": "GET", "route": "/x", "status": "200"})]
    by_bound = {value.labels["le"]: value.number for value in durations.values if value.suffix == "_bucket"}
    assert (by_bound["0.005"], by_bound["0.01"], by_bound["0.25"], by_bound["5.0"], by_bound["+Inf"]) == (
        2,
        3,
        4,
        4,
        5,
    )
    assert [value.number for value in durations.values[-2:]] == [100.212, 5]
