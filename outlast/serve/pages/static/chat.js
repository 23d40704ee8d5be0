// The chat while it is open: new messages, the answer while it is written, sending without a reload.
// Everything that is shown comes from the server as escaped HTML, or is set as text.
(() => {
  "use strict";

  const get = (id) => document.getElementById(id);
  const [chat, messages, progress, status, problem, form, text, files, chosen, connection] = [
    "chat", "messages", "progress", "status", "problem", "write", "text", "files", "chosen", "connection"].map(get);
  const bubble = progress.firstElementChild;

  // --- The end of the conversation stays in view ------------------------------------------------

  const page = document.scrollingElement;
  let follows = true;

  addEventListener("scroll", () => {
    follows = page.scrollHeight - page.scrollTop - page.clientHeight < 80;
  }, { passive: true });

  function scrollDown(always) {
    if (always || follows) page.scrollTo({ top: page.scrollHeight });
  }

  messages.addEventListener("load", () => scrollDown(), true);  // photos have their height later

  // --- Messages, which the page keeps by their ids ------------------------------------------------

  function elementOf(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  }

  function showMessages(order, html) {
    const present = new Map([...messages.children].map((one) => [one.dataset.message, one]));
    let before = null;
    for (const id of order) {
      let element = present.get(id);
      present.delete(id);
      if (html[id] !== undefined) {
        const fresh = elementOf(html[id]);
        if (!element) element = fresh;
        else if (element.outerHTML !== fresh.outerHTML) {
          element.replaceWith(fresh);
          element = fresh;
        }
      }
      if (!element) continue;
      const place = before ? before.nextElementSibling : messages.firstElementChild;
      if (place !== element) messages.insertBefore(element, place);
      before = element;
    }
    for (const old of present.values()) old.remove();
  }

  // Earlier messages stand in a list of their own, which no event changes. Where one is, it stays.
  document.getElementById("earlier")?.addEventListener("click", async (event) => {
    const link = event.target.closest(".earlier a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const answer = await fetch(link.getAttribute("hx-get"), { headers: { "HX-Request": "true" } }).catch(() => null);
    if (!answer?.ok) return void location.assign(link.href);
    const part = document.createElement("template");
    part.innerHTML = await answer.text();
    const place = link.closest(".earlier");
    const next = place.nextElementSibling || messages.firstElementChild;
    const top = next.getBoundingClientRect().top;
    const added = part.content.firstElementChild;
    place.replaceWith(part.content);
    page.scrollTop += next.getBoundingClientRect().top - top;
    const focused = added.querySelector("a") || added;
    if (focused === added) added.tabIndex = -1;
    focused.focus({ preventScroll: true });
  });

  // The answer while it is written: only what stands out is marked. The message that follows has all of it.
  const MARKS = /\*\*(?=\S)([^\n]+?)\*\*|`([^`\n]+)`|\*(?=[^\s*])([^*\n]+)\*/g;
  let written = "";

  function marked(content) {
    const parts = [];
    let end = 0;
    for (const found of content.matchAll(MARKS)) {
      const at = found.slice(1).findIndex((one) => one !== undefined);
      const element = document.createElement(["strong", "code", "em"][at]);
      element.textContent = found[at + 1];
      parts.push(content.slice(end, found.index), element);
      end = found.index + found[0].length;
    }
    return [...parts, content.slice(end)];
  }

  function showText(content) {
    written = content;
    bubble.replaceChildren(...marked(content));
    progress.hidden = !content;
  }

  // A window that nobody looks at says in its title that something has come.
  const title = document.title;
  addEventListener("visibilitychange", () => { if (!document.hidden) document.title = title; });

  function hasCome(order, html) {
    if (document.hidden && order.some((id) => /class="chat-message is-(assistant|colleague)/.test(html[id]) && !known.has(id))) {
      document.title = `(1) ${title}`;
    }
    known = new Set(order);
  }

  let known = new Set([...messages.children].map((one) => one.dataset.message));

  // --- The stream ----------------------------------------------------------------------------------

  let source = null;
  let failures = 0;

  function showConnection(words, isOff) {
    connection.hidden = false;
    connection.textContent = words;
    connection.classList.toggle("is-off", isOff);
  }

  function listen() {
    source?.close();
    source = new EventSource(chat.dataset.events);
    source.addEventListener("open", () => { failures = 0; showConnection("Live", false); });
    source.addEventListener("chat", (event) => {
      const view = JSON.parse(event.data);
      hasCome(view.order, view.html);
      showMessages(view.order, view.html);
      if (view.text !== undefined) showText(view.text);
      status.innerHTML = view.status;
      const isLive = !status.querySelector("[data-not-live]");
      showConnection(isLive ? "Live" : "Not live", !isLive);
      form.hidden = view.ended;
      document.querySelector(".chat-hello")?.remove();
      scrollDown();
    });
    source.addEventListener("text", (event) => {
      const piece = JSON.parse(event.data);
      showText(piece.text === undefined ? written + piece.add : piece.text);
      scrollDown();
    });
    source.addEventListener("end", () => { source.close(); connection.hidden = true; });
    source.addEventListener("error", () => {
      showConnection("Reconnecting", true);
      if (source.readyState === EventSource.CLOSED) again();
    });
  }

  // The server refused the stream: the token may have expired, or the server is away.
  async function again() {
    failures += 1;
    await new Promise((done) => setTimeout(done, Math.min(30000, 500 * 2 ** failures)));
    const answer = await fetch(location.href, { method: "HEAD", cache: "no-store" }).catch(() => null);
    if (answer && answer.status >= 400 && answer.status < 500 && answer.status !== 429) {
      showConnection("Closed", true);
      refuse("This page has expired. Open the chat with your link again.");
      form.hidden = true;
    } else listen();
  }

  if (chat.dataset.events) listen();
  // A page that comes back from the browser's own memory is as old as when it was left.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // --- Writing ---------------------------------------------------------------------------------------

  function refuse(words) {
    problem.textContent = words;
    problem.hidden = !words;
    scrollDown();
  }

  function newNonce() {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    form.elements.nonce.value = [...bytes].map((one) => one.toString(16).padStart(2, "0")).join("");
  }

  const canSend = () => text.value.trim() !== "" || picked.length > 0;

  function fit() {
    text.style.height = "auto";
    text.style.height = `${text.scrollHeight}px`;
  }

  text.addEventListener("input", fit);
  text.addEventListener("keydown", (event) => {
    const isPhone = matchMedia("(pointer: coarse)").matches;
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || isPhone) return;
    event.preventDefault();
    if (canSend()) form.requestSubmit();
  });

  let sending = false;

  form.addEventListener("submit", async (event) => {
    // The first message begins the conversation: the answer is a new page.
    if (!chat.dataset.events && !picked.some((one) => one.smaller)) {
      if (sending || !canSend()) event.preventDefault();
      sending = canSend();
      return;
    }
    event.preventDefault();
    if (sending || !canSend()) return;
    sending = true;
    form.classList.add("is-sending");
    refuse("");
    const body = new FormData(form);
    body.delete("files");
    for (const one of picked) body.append("files", one.smaller || one.file, one.name);
    try {
      const answer = await fetch(form.action, { method: "POST", body, headers: { "X-Chat": "1" } });
      if (!answer.ok) {
        const content = await answer.json().catch(() => null);
        refuse(content?.error?.message || "This did not work. Send it again.");
        return;
      }
      const moved = answer.headers.get("Location");  // the conversation that follows this one
      if (moved) return void location.replace(moved);
      if (!chat.dataset.events) return void location.replace(form.action);
      text.value = "";
      forget();
      fit();
      newNonce();
      scrollDown(true);
      if (source.readyState === EventSource.CLOSED) listen();
    } catch {
      refuse("There is no connection. Nothing is lost: send it again.");
    } finally {
      sending = false;
      form.classList.remove("is-sending");
      text.focus();
    }
  });

  // --- Photos and files ----------------------------------------------------------------------------

  const LARGE = 900000;
  const SIDE = 2048;
  let picked = [];

  function forget() {
    for (const one of picked) if (one.address) URL.revokeObjectURL(one.address);
    picked = [];
    files.value = "";
    showChosen();
  }

  // Models read no more of a photo than this, and phones make larger ones.
  async function smaller(file) {
    if (file.size < LARGE || !/^image\/(png|jpeg|webp)$/.test(file.type)) return null;
    const image = await createImageBitmap(file).catch(() => null);
    if (!image) return null;
    const scale = Math.min(1, SIDE / Math.max(image.width, image.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(image.width * scale);
    canvas.height = Math.round(image.height * scale);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.85));
    return blob && blob.size < file.size ? blob : null;
  }

  async function pick(list) {
    for (const file of list) {
      const less = await smaller(file);
      const address = /^image\/(png|jpeg|gif|webp)$/.test(file.type) ? URL.createObjectURL(file) : null;
      picked.push({ file, smaller: less, name: file.name || "photo.png", address });
    }
    keepInForm();
    showChosen();
  }

  // What is dropped or pasted is in the form, too, so that a plain form sends it.
  function keepInForm() {
    const all = new DataTransfer();
    for (const one of picked) all.items.add(one.file);
    files.files = all.files;
  }

  function showChosen() {
    chosen.hidden = picked.length === 0;
    chosen.replaceChildren(...picked.map((one, at) => {
      const item = document.createElement("li");
      if (one.address) {
        const image = document.createElement("img");
        image.src = one.address;
        image.alt = "";
        item.append(image);
      }
      const name = document.createElement("span");
      name.textContent = one.name;
      const remove = document.createElement("button");
      remove.type = "button";
      remove.className = "quiet";
      remove.textContent = "×";
      remove.setAttribute("aria-label", `Remove ${one.name}`);
      remove.addEventListener("click", () => {
        picked.splice(at, 1);
        keepInForm();
        showChosen();
        text.focus();
      });
      item.append(name, remove);
      return item;
    }));
  }

  files.addEventListener("change", () => {
    const list = [...files.files];
    const known = new Set(picked.map((one) => one.file));
    pick(list.filter((one) => !known.has(one)));
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer?.files.length) pick([...event.dataTransfer.files]);
  });
  text.addEventListener("paste", (event) => {
    const list = [...(event.clipboardData?.files || [])];
    if (!list.length) return;
    event.preventDefault();
    pick(list);
  });

  fit();
  scrollDown(true);
})();
