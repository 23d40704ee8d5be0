"""Applying diffs as models write them."""

from typing import Any

import pytest

from outlast.extensions.machine.diffs import InvalidDiffError, apply_diff

CLASSES = "class A:\n  def f():\n    x\nclass B:\n  def f():\n    x\n"


@pytest.mark.parametrize(
    ("text", "diff", "changed"),
    [
        ("a\nb\nc\n", "@@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
        ("a\nb\nc\n", " a\n-b\n+B\n c", "a\nB\nc\n"),
        ("a\nb\nc\n", "-b\n+B\n", "a\nB\nc\n"),
        ("a\nb\nc\n", "@@\n a\n+1\n b\n+2\n c\n", "a\n1\nb\n2\nc\n"),
        ("a\nb\nc\nd\n", "@@\n-a\n-b\n+1\n+2\n+3\n c\n-d\n", "1\n2\n3\nc\n"),
        ("a\nb\n", "@@\n-a\n-b\n", ""),
        ("", "@@\n+x\n", "x\n"),
        ("a\nb", "@@\n-b\n+B\n", "a\nB"),
        ("a\n\nb\n", "@@\n a\n\n-b\n+B\n", "a\n\nB\n"),
        ("a\nb\n", "", "a\nb\n"),
        ("a\nb\n", "@@\n-a\n+A\n*** End Patch\nwhatever", "A\nb\n"),
        ("a\nb\n", "@@\n-a\n+A\n*** Update File: other.txt\n@@\n-q\n", "A\nb\n"),
        ("a\nb\nc\nd\n", "@@ c\n+x\n@@ a\n+y\n", "a\nb\nc\nx\ny\nd\n"),
        ("a\nb\na\n", "@@ a\n-b\n+B\n@@ a\n+y\n", "a\nB\ny\na\n"),
        ("a\nb\n", "@@ -0,0 +1,2 @@\n+x\n", "x\na\nb\n"),
        ("a\nb\n", "@@\n-a\n@@ q\n+x\n", "x\nb\n"),
        ("a\nb\n", "@@ q\n+x\n*** End of File\n", "a\nb\nx\n"),
    ],
)
def test_lines_are_found_by_what_is_around_them(text: str, diff: str, changed: str) -> None:
    assert apply_diff(text, diff) == changed


@pytest.mark.parametrize(
    ("diff", "changed"),
    [
        ("@@ class B:\n-    x\n+    y\n", CLASSES[:-2] + "y\n"),
        ("@@ class B:\n@@   def f():\n-    x\n+    y\n", CLASSES[:-2] + "y\n"),
        ("@@ class B:\n@@ def f():\n+    pass\n", CLASSES[:-6] + "    pass\n    x\n"),
        ("@@ class B:\n@@\n-    x\n+    y\n", CLASSES[:-2] + "y\n"),
        ("@@ class B:\n@@   def f():\n   def f():\n-    x\n+    y\n", CLASSES[:-2] + "y\n"),
        ("@@ class C:\n-    x\n+    y\n", CLASSES.replace("x", "y", 1)),
    ],
)
def test_an_anchor_says_after_which_line_to_look(diff: str, changed: str) -> None:
    assert apply_diff(CLASSES, diff) == changed


def test_the_first_of_several_anchors_may_be_before_the_previous_change() -> None:
    diff = "@@ A\n@@ f\n-1\n+one\n@@ A\n@@ g\n-2\n+two\n"
    assert apply_diff("A\nf\n1\ng\n2\n", diff) == "A\nf\none\ng\ntwo\n"
    assert apply_diff(" A\nf\n1\ng\n2\n", diff) == " A\nf\none\ng\ntwo\n"


def test_an_anchor_may_be_one_of_the_lines_itself() -> None:
    assert apply_diff("a\nb\n", "@@ a\n a\n-b\n+B\n") == "a\nB\n"


@pytest.mark.parametrize(
    ("text", "diff", "changed"),
    [
        ("x\n1\nx\n2\n", "@@\n x\n-1\n+one\n@@\n x\n-2\n+two\n", "x\none\nx\ntwo\n"),
        ("a\nb\nc\n", "@@\n-a\n+A\n@@\n-c\n+C\n", "A\nb\nC\n"),
        ("a\na\n", "@@\n-a\n@@\n+b\n", "b\na\n"),
    ],
)
def test_each_change_is_looked_for_behind_the_one_before(
    text: str, diff: str, changed: str
) -> None:
    assert apply_diff(text, diff) == changed


@pytest.mark.parametrize(
    ("text", "diff", "changed"),
    [
        ("a\nb\na\nb\n", "@@\n a\n-b\n+B\n*** End of File\n", "a\nb\na\nB\n"),
        ("a\nb\na\nb\n", "@@\n a\n-b\n+B\n", "a\nB\na\nb\n"),
        ("a\nb\n", "@@\n+c\n*** End of File\n", "a\nb\nc\n"),
        ("a\nb", "@@\n+c\n*** End of File\n", "a\nb\nc"),
        ("a\nb\nc\n", "@@\n-b\n+B\n*** End of File\n", "a\nB\nc\n"),
        ("c\na\n", "@@ a\n-a\n*** End of File\n", "c\n"),
    ],
)
def test_the_end_of_the_file_is_looked_at_first_where_it_is_meant(
    text: str, diff: str, changed: str
) -> None:
    assert apply_diff(text, diff) == changed


@pytest.mark.parametrize(
    ("text", "diff", "changed"),
    [
        ("a  \nb\nc\n", "@@\n a\n-b\n+B\n", "a  \nB\nc\n"),
        ("   a\nb\nc\n", "@@\n a\n-b\n+B\n", "   a\nB\nc\n"),
        (" a\na\n", "@@\n-a\n+A\n", " a\nA\n"),
    ],
)
def test_blanks_do_not_matter_where_nothing_fits_exactly(
    text: str, diff: str, changed: str
) -> None:
    assert apply_diff(text, diff) == changed


@pytest.mark.parametrize(
    ("text", "diff", "changed"),
    [
        ("a\r\nb\r\n", "@@\n-b\n+B\n", "a\r\nB\r\n"),
        ("a\nb\n", "@@\r\n-b\r\n+B\r\n", "a\nB\n"),
        ("", "@@\r\n+a\r\n+b\r\n", "a\r\nb\r\n"),
    ],
)
def test_a_text_keeps_its_line_breaks(text: str, diff: str, changed: str) -> None:
    assert apply_diff(text, diff) == changed


@pytest.mark.parametrize(
    ("diff", "made"),
    [
        ("+a\n+b\n", "a\nb"),
        ("+a\n+\n", "a\n"),
        ("+a\r\n+b", "a\r\nb"),
        ("", ""),
        ("+a\n*** End Patch", "a"),
        ("+a\n*** Add File: other.txt\n+b", "a"),
    ],
)
def test_a_new_file_is_made_of_added_lines(diff: str, made: str) -> None:
    assert apply_diff("whatever", diff, mode="create") == made


@pytest.mark.parametrize(
    ("diff", "message"),
    [
        ("@@\n q\n-b\n", "does not have these lines in this order:\nq\nb"),
        ("@@\n-c\n@@\n-a\n", "these lines in this order:\na"),
        ("@@\n q\n*** End of File", "these lines in this order:\nq"),
        ("@@ a\n@@ q\n+x\n", "does not have this line after 'a': 'q'"),
        ("@@ b\n@@ a\n+x\n", "does not have this line after 'b': 'a'"),
        ("@@ q\n@@ a\n-a\n", "does not have this line: 'q'"),
        ("@@ q\n@@\n-a\n", "does not have this line: 'q'"),
        ("@@ b\n@@ c\n-a\n", "these lines in this order:\na"),
        ("@@\n a\nxb\n", "A line must begin with"),
        ("@@a\n-b\n", "A line must begin with"),
        ("*** Begin Patch\n", "A line must begin with"),
        ("@@\n", "A change has no lines"),
        ("@@ a\n@@ b\n*** End of File", "A change after b after a has no lines"),
    ],
)
def test_what_does_not_fit_is_told_in_words_for_the_model(diff: str, message: str) -> None:
    with pytest.raises(InvalidDiffError) as caught:
        apply_diff("a\nb\nc\n", diff)
    assert message in str(caught.value)


@pytest.mark.parametrize("diff", ["a\n", "+a\n\n", "-a"])
def test_a_new_file_has_no_other_lines(diff: str) -> None:
    with pytest.raises(ValueError, match="must begin with '\\+'"):
        apply_diff("", diff, mode="create")


def test_there_is_no_other_mode() -> None:
    mode: Any = "replace"
    with pytest.raises(ValueError, match="mode"):
        apply_diff("", "", mode=mode)
