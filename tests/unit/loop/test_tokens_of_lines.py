"""The tokens of a realtime line."""

from outlast.loop.lines import MOST_SKIPPED, MOST_TOKENS, follows, tokens


def test_each_token_follows_the_one_before_and_no_other_text_does() -> None:
    owner, *rest = tokens("secret")
    assert len(rest) == MOST_TOKENS
    assert follows(rest[0], owner)
    assert follows(rest[3], rest[2])
    assert not follows(owner, owner)
    assert not follows(owner, rest[0])
    assert not follows("", owner)
    assert not follows("secret", owner)


def test_some_tokens_may_be_missing() -> None:
    owner, *rest = tokens("secret")
    assert follows(rest[MOST_SKIPPED - 1], owner)
    assert not follows(rest[MOST_SKIPPED], owner)
