"""Texts that attack pages, and what of a page a browser would act on."""

import re
from html.parser import HTMLParser
from typing import Final

HOSTILE: Final = (
    "<script>alert(1)</script>",
    "<ScRiPt src=//evil.example/x.js></sCrIpT>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "--><script>alert(1)</script><!--",
    "]]><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)' autofocus='",
    "` onclick=`alert(1)",
    "<img src='https://evil.example/pixel.png'>",
    "<iframe src=javascript:alert(1)>",
    "<object data=//evil.example>",
    "<embed src=//evil.example>",
    "<form action=//evil.example><button>Approve</button></form>",
    "<input autofocus onfocus=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href=' &#106;avascript:alert(1)'>x</a>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example>",
    "<style>body{display:none}</style>",
    "<div style='position:fixed;inset:0'>x</div>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
    "<svg><animate onbegin=alert(1) attributeName=x></svg>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<template><script>alert(1)</script></template>",
    '<div hx-get="/conversations/x/cancel" hx-trigger="load">x</div>',
    '<div hx-on:click="alert(1)" data-hx-post="/x">x</div>',
    '<div sse-connect="//evil.example">x</div>',
    '<button data-key="a">Approve</button>',
    '<span data-title="Owned" data-announce="Owned">x</span>',
    "javascript:alert(1)",
    "JaVaScRiPt&colon;alert(1)",
    "java\tscript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "//evil.example/path",
    'https://evil.example/?q="><script>alert(1)</script>',
    "[x](javascript:alert(1))",
    "![x](https://evil.example/pixel.png)",
    "[x]: javascript:alert(1)\n[x]",
    "<https://evil.example>",
    '<!--#exec cmd="id"-->',
    "{{ 7919 * 7907 }}{{ asked.desk.client }}",
    "{% for x in ().__class__.__mro__ %}{{ x }}{% endfor %}",
    "${7919*7907} #{7919*7907} <%= 7919*7907 %> {7919*7907}",
    "\u202egnp.exe\u202c \u2066hidden\u2069",
    "zero\u200bwidth\ufeff\u00adsoft\u2060joined",
    "\x1b[2J\x1b]0;owned\x07\x1b[31mred",
    "nul\x00byte \x08\x7f\x9b",
    "line\u2028and\u2029paragraph\r\rreturn\x0b\x0c",
    "\U000e0041\U000e0042tags",
    "\u0430nn and p\u0430yp\u0430l",
    "data: x\n\nevent: owned\ndata: <script>alert(1)</script>\n\n",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#x202e; &amp;quot;",
    "\\u202e \\\\u202e \\",
    "Z" + "\u0301" * 500,
    "\ud800 half a character",
    "x" * 60_000,
    "<" * 5_000,
    "[" * 5_000 + "](x)" * 5_000,
    "> " * 2_000 + "deep",
    "",
    " \n\t ",
    "null",
    "\U0001d573\U0001d58a \uff1cscript\uff1ealert(1)\uff1c/script\uff1e",
)
"""More than 60 texts: scripts, broken attributes, addresses, hidden characters, templates, sizes."""

_TAGS: Final = {"script", "iframe", "object", "embed", "base", "style", "svg", "math", "video"}
_TAGS_OF_PAGES: Final = {"template", "noscript", "source", "animate"}
_OWN_FORMS: Final = re.compile(r"/(?!/)[\w/.%~-]*(\?[\w=&%.+-]*)?")
_OWN_FILES: Final = re.compile(r"/conversations/[\w.%~-]+/files\?[\w=&%.+-]*")
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ufeff\ud800]"
)


def active_content(page: str) -> list[str]:
    """Return what of a page would run, load or send something that the desk did not make."""
    found = _Found()
    found.feed(page)
    found.close()
    hidden = [f"hidden character {one!r}" for one in _HIDDEN.findall(page)]
    evaluated = ["template syntax was evaluated"] if "62615533" in page else []
    return found.problems + hidden + evaluated


class _Found(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        is_own_script = tag == "script" and values.get("src", "").split("/")[-3:-2] == ["static"]
        if tag in _TAGS | _TAGS_OF_PAGES and not is_own_script:
            self.problems.append(f"<{tag}>")
        src = values.get("src", "")
        if tag == "img" and not (src.startswith("data:image/") or _OWN_FILES.fullmatch(src)):
            self.problems.append(f"an image of {values.get('src')}")
        self.problems += [self._attribute(tag, name, one) for name, one in values.items()]
        self.problems = [one for one in self.problems if one]

    def _attribute(self, tag: str, name: str, value: str) -> str:
        if name.startswith(("on", "hx-on", "data-hx")) or name == "style":
            return f"{tag} {name}"
        if name in {"src", "action", "hx-get", "hx-post", "sse-connect", "formaction"}:
            return "" if _OWN_FORMS.fullmatch(value) else f"{tag} {name}={value[:80]}"
        if name == "href" and tag == "a" and not value.startswith(("/", "#", "?")):
            return "" if value.startswith(("http://", "https://", "mailto:")) else f"a {value[:80]}"
        if name == "href" and value.startswith("//"):
            return f"a {value[:80]}"
        return ""
