// The chat in a frame of another site: both sides speak to the origin alone that the operator lists.
(() => {
  "use strict";
  if (window.parent === window) return;
  const origins = document.body.dataset.embed.split(" ");
  let host = "";

  const tell = (type, count) => { if (host) window.parent.postMessage({ outlast: type, count }, host); };

  addEventListener("message", (event) => {
    if (event.source !== window.parent || !origins.includes(event.origin)) return;
    host = event.origin;
    const type = event.data?.outlast;
    if (type === "hello" && document.querySelector("[data-problem=not_logged_in]")) tell("refused");
    if (type === "open") document.getElementById("text")?.focus();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing) tell("close");
  });
  // Another window has no cookie of this frame: photos are downloaded here, and links open elsewhere.
  addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link) return;
    if (link.origin !== location.origin) { link.target = "_blank"; link.rel = "noopener"; }
    else if (link.target) { link.removeAttribute("target"); link.download = ""; }
  }, true);
  addEventListener("chat:came", (event) => tell("unread", event.detail));
})();
