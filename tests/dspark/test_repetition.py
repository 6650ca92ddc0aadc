"""The text goes on as it went on before."""

from pipeline.dspark.estimates import Estimates
from pipeline.dspark.repetition import Repetition, expected_bytes

EXAMPLE = b'Example: {"skill": "knowledge of protein expression", "rank": 4} End. '


def test_the_longest_repeated_end_goes_on_as_it_did() -> None:
    repetition = Repetition(EXAMPLE, Estimates())
    repetition.observe(b'{"skill": "knowledge of prot')
    plan = repetition.plan(limit=24, min_survival=0.0)
    assert plan is not None
    assert plan.text == b'ein expression", "rank":'
    assert [event[2] for event in plan.events] == ["repetition"] * 6
    survivals = [event[3] for event in plan.events]
    assert survivals == sorted(survivals, reverse=True)


def test_nothing_repeats_at_first() -> None:
    assert Repetition(b"", Estimates()).plan(limit=20, min_survival=0.0) is None
    repetition = Repetition(b"one two three", Estimates())
    repetition.observe(b" four")
    assert repetition.plan(limit=20, min_survival=0.0) is None


def test_a_loop_goes_on() -> None:
    repetition = Repetition(b"", Estimates())
    repetition.observe(b"ab, ab, ab, ab, ")
    plan = repetition.plan(limit=10, min_survival=0.0)
    assert plan is not None
    assert plan.text == b"ab, ab, ab"


def test_of_a_long_prompt_only_the_end_is_searched() -> None:
    repetition = Repetition(b"early words 123 " + b"." * (1 << 16), Estimates())
    repetition.observe(b" early words")
    assert repetition.plan(limit=20, min_survival=0.0) is None


def test_a_long_repetition_is_surer_than_a_short_one() -> None:
    short, long = (Repetition(EXAMPLE, Estimates()) for _ in range(2))
    short.observe(b"protein ")
    long.observe(b'Example: {"skill": "knowledge of protein ')
    plans = [repetition.plan(limit=12, min_survival=0.0) for repetition in (short, long)]
    assert plans[0] is not None and plans[1] is not None  # noqa: PT018 (narrows both)
    assert plans[0].text == plans[1].text
    assert expected_bytes(plans[1]) > 1.3 * expected_bytes(plans[0])


def test_what_came_true_makes_later_claims_surer_and_what_did_not_less_sure() -> None:
    for came_true in (True, False):
        repetition = Repetition(EXAMPLE, Estimates())
        repetition.observe(b"of protein ")
        before = repetition.plan(limit=4, min_survival=0.0)
        assert before is not None
        estimate = before.events[0][4]
        assert estimate is not None
        for _ in range(20):
            estimate.learn(came_true)
        after = repetition.plan(limit=4, min_survival=0.0)
        assert after is not None
        assert (after.events[0][3] > before.events[0][3]) is came_true


def test_it_stops_where_it_is_unlikely_and_between_characters() -> None:
    estimates = Estimates()
    repetition = Repetition("Vertrag über 1.250 € für die Prüfung".encode(), estimates)
    repetition.observe(b" Vertrag ")
    whole = repetition.plan(limit=200, min_survival=0.0)
    assert whole is not None
    assert whole.text.decode().startswith("über 1.250 €")
    unsure = repetition.plan(limit=200, min_survival=0.5)
    assert unsure is not None
    assert len(unsure.text) < len(whole.text)
    inside = Repetition("ein Rätsel".encode() + b" " + "ein Rä".encode()[:-1], estimates).plan(
        limit=6, min_survival=0.0
    )
    assert inside is not None
    assert inside.text == "ä".encode()[1:] + b"tsel ", "what is left of a character comes first"
    for limit in range(1, 14):
        cut = repetition.plan(limit=limit, min_survival=0.0)
        assert cut is not None
        assert whole.text.decode().startswith(cut.text.decode())
