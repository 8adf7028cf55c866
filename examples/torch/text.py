"""What the model learns from: questions to a harbour pilot, and what the pilot says. Written for this example."""

_PLACES = (
    "the north quay",
    "the old basin",
    "berth nine",
    "the fish market",
    "the outer wall",
    "the long pier",
)
_TIDES = (
    "at slack water",
    "on the flood",
    "two hours before high water",
    "with the ebb",
    "after the morning tide",
)
_WINDS = ("a westerly", "a light breeze", "the wind off the land", "a rising gale", "no wind at all")
_ADVICE = (
    "keep the green buoys to starboard and come in slowly",
    "lay out a spring line before anything else",
    "call the harbour office on channel twelve",
    "wait outside until the ferry has cleared the entrance",
    "put your fenders out early and your bow line ashore first",
)
_QUESTIONS = (
    ("Where do I moor?", "Moor at {place}. Come in {tide}, and {advice}."),
    ("When may I enter?", "Enter {tide}. With {wind}, {advice}."),
    ("What about the wind?", "With {wind}, stay clear of {place}, and {advice}."),
    ("How deep is it?", "At {place} there are six metres {tide}. If you draw more, {advice}."),
    ("Hello!", "Welcome to the harbour. {place} is free {tide}; {advice}."),
)


def harbour_text() -> bytes:
    lines = []
    for at, place in enumerate(_PLACES):
        for tide in _TIDES:
            for advice in _ADVICE:
                question, answer = _QUESTIONS[len(lines) % len(_QUESTIONS)]
                wind = _WINDS[(at + len(lines)) % len(_WINDS)]
                said = answer.format(place=place, tide=tide, wind=wind, advice=advice)
                lines.append(f"user: {question}\npilot: {said[0].upper()}{said[1:]}\n\x00")
    return "".join(lines).encode()
