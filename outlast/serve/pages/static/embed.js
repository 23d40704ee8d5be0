// Puts a button and a frame with the chat into a page: <script src=".../chat/embed.js" data-agent="Shop" async></script>
// data-token is a token of your backend; without one, the visitor is a guest where the desk takes guests.
(() => {
  "use strict";
  const look = __LOOK__;
  const { agent, token } = document.currentScript.dataset;
  const desk = new URL(look.door).origin;
  if (!look.origins.includes(location.origin)) {
    console.error(`The chat of ${desk} is not for pages of ${location.origin}: its operator does not list this site.`);
    return;
  }
  if (!token && !look.guests) {
    console.error(`The chat of ${desk} needs a token: add data-token to its script.`);
    return;
  }
  const door = `${look.door}${agent ? `?agent=${encodeURIComponent(agent)}` : ""}${token ? `#${encodeURIComponent(token)}` : ""}`;

  // A shadow tree keeps the styles of the page out, and these in.
  const place = document.createElement("div");
  const root = place.attachShadow({ mode: "open" });
  const style = new CSSStyleSheet();
  style.replaceSync(`
    :host { all: initial; position: fixed; right: 20px; bottom: 20px; z-index: 2147483000; font: 15px/1.4 system-ui, sans-serif; }
    [hidden] { display: none !important; }
    button { position: relative; float: right; min-height: 48px; padding: 0 20px; border: 0; border-radius: 24px; color: #fff; background: ${look.color}; font: inherit; font-weight: 600; cursor: pointer; box-shadow: 0 4px 16px rgb(0 0 0 / 25%); }
    :focus-visible { outline: 3px solid ${look.color}; outline-offset: 3px; }
    .count { position: absolute; top: -6px; right: -2px; min-width: 22px; padding: 1px 6px; box-sizing: border-box; border-radius: 11px; color: #fff; background: #b3211b; font-size: 13px; }
    .panel { width: 384px; height: min(620px, calc(100dvh - 108px)); margin-bottom: 12px; overflow: hidden; border-radius: 14px; background: Canvas; box-shadow: 0 8px 32px rgb(0 0 0 / 30%); color-scheme: light dark; }
    .panel a { display: block; padding: 24px; color: LinkText; }
    iframe { display: block; width: 100%; height: 100%; border: 0; }
    @media (max-width: 480px) {
      :host { right: 12px; bottom: 12px; left: 12px; }
      .panel { width: 100%; height: calc(100dvh - 88px); }
    }`);
  root.adoptedStyleSheets = [style];
  const panel = document.createElement("div");
  panel.className = "panel";
  panel.id = "panel";
  panel.hidden = true;
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-controls", "panel");
  const label = document.createElement("span");
  const count = document.createElement("span");
  count.className = "count";
  count.hidden = true;
  button.append(label, count);
  root.append(panel, button);
  let frame = null;
  let unread = 0;

  function show(isOpen) {
    panel.hidden = !isOpen;
    label.textContent = isOpen ? look.close : look.open;
    button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) unread = 0;
    count.hidden = !unread;
    count.textContent = unread;
  }

  const tell = (type) => frame?.contentWindow?.postMessage({ outlast: type }, desk);

  function load() {
    frame = document.createElement("iframe");
    frame.title = look.name;
    frame.src = door;
    frame.addEventListener("load", () => { tell("hello"); if (!panel.hidden) tell("open"); });
    panel.append(frame);
  }

  button.addEventListener("click", () => {
    const isOpen = panel.hidden;
    show(isOpen);
    if (!isOpen) return;
    if (!panel.firstChild) load();
    else { frame?.focus(); tell("open"); }
  });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || panel.hidden) return;
    show(false);
    button.focus();
  });
  addEventListener("message", (event) => {
    if (!frame || event.origin !== desk || event.source !== frame.contentWindow) return;
    const type = event.data?.outlast;
    if (type === "close") { show(false); button.focus(); }
    if (type === "unread" && panel.hidden) { unread += Math.max(0, Math.floor(Number(event.data.count)) || 0); show(false); }
    if (type === "refused") {
      // This browser keeps no cookies for frames: the chat goes into a window of its own.
      const way = document.createElement("a");
      way.href = door;
      way.target = "_blank";
      way.rel = "noopener";
      way.textContent = look.window;
      frame.replaceWith(way);
      frame = null;
    }
  });
  show(false);
  (document.body || document.documentElement).append(place);
})();
