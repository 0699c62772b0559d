"""What each rule says, in a few words; `docs/rules.md` has the whole table."""

RULES = {
    "R0": "duplicates are not detected",
    "R1": "the document is not evaluated",
    "R2": "delivered the maximum number of times",
    "R3": "it has no key",
    "R4": "its key is longer than 96 code points",
    "R5": "the history is not available, and the trigger suspends",
    "R6": "the history is not available, and the resolver decides",
    "R7": "the history is not available",
    "R8": "the history has no entry",
    "R9": "it was completed",
    "R10": "it was begun and has not ended, and the resolver decides",
    "R11": "it was begun and has not ended",
    "R12": "without history: the first delivery",
    "R13": "without history: delivered again, and the resolver decides",
    "R14": "without history: delivered again",
    "R15": "without history: the count is undefined, and the resolver decides",
    "R16": "without history: the count is undefined",
    "S1": "the resolver says NEW",
    "S2": "the resolver says DUPLICATE",
    "S3": "the resolver says IN_DOUBT",
    "S4": "the resolver fails for the moment, and the trigger suspends",
    "S5": "the resolver fails for the moment",
    "S6": "the resolver fails",
    "S7": "the resolver answers something else",
}


def explained(rule: str) -> str:
    """A rule as a verdict names it, in words: `R10>S1+batch`."""
    code, _, batch = rule.partition("+")
    words = "; ".join(RULES.get(one, one) for one in code.split(">"))
    return f"{words}; a copy of an earlier row of its batch" if batch else words
