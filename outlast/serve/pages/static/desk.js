// What pages do beyond htmx: keys, times in the reader's own zone, focus, and forms that are kept.
(() => {
  "use strict";

  document.documentElement.classList.add("js");

  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const isWriting = (element) => element.matches("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");

  // --- Times ----------------------------------------------------------------------------------

  const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];

  function rough(seconds) {
    for (const [unit, size] of UNITS) if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
    return `${Math.max(0, Math.floor(seconds))} s`;
  }

  const MINUTE = { hour: "2-digit", minute: "2-digit" };
  const FORMS = {
    date: { dateStyle: "medium", timeStyle: "short" },
    zoned: { dateStyle: "medium", timeStyle: "long" },
    whole: { dateStyle: "full", timeStyle: "long" },
    minute: MINUTE,
    clock: { ...MINUTE, second: "2-digit" },
    day: { weekday: "long", year: "numeric", month: "long", day: "numeric" },
  };
  const formats = {}; // to make one costs a browser more than to use it a hundred times
  let withZones = false; // a full stop shows every time with its zone

  function inWords(at, form) {
    formats[form] ||= new Intl.DateTimeFormat([], FORMS[form]);
    return formats[form].format(at);
  }

  function showTime(element, now) {
    const at = new Date(element.dateTime);
    const form = element.dataset.time;
    const seconds = (now - at) / 1000;
    let words;
    if (form === "deadline") element.classList.toggle("is-over", seconds >= 0);
    if (withZones) words = inWords(at, "zoned");
    else if (form === "age") words = rough(seconds);
    else if (form === "deadline") words = seconds < 0 ? `in ${rough(-seconds)}` : "overdue";
    else words = inWords(at, FORMS[form] ? form : "date");
    if (element.textContent !== words) element.textContent = words;
  }

  // The whole time is the title of each, made when somebody points there.
  addEventListener("pointerover", (event) => {
    const element = event.target.closest?.("time[data-time]");
    if (element) element.title = inWords(new Date(element.dateTime), "whole");
  });

  function showTimes(root = document) {
    const now = Date.now();
    for (const element of all("time[data-time]", root)) showTime(element, now);
  }

  // A line with the day stands before its first entry. What a swap brings has none yet, or one too many.
  function showDays() {
    for (const list of all("[data-days]")) {
      let day = "";
      let isNew = false;
      for (const entry of all("li:has(time[datetime])", list)) {
        const at = new Date(entry.querySelector("time").dateTime);
        const line = entry.previousElementSibling?.matches(".day") ? entry.previousElementSibling : null;
        if (at.toDateString() === day) line?.remove();
        else if (!line) {
          const made = Object.assign(document.createElement("li"), { className: "day", textContent: inWords(at, "day") });
          entry.before(made);
          isNew = true;
        } else if (line.textContent !== inWords(at, "day")) line.textContent = inWords(at, "day");
        day = at.toDateString();
      }
      if (isNew && list.isAtEnd !== false) list.scrollTop = list.scrollHeight;
    }
  }

  // --- The title, and what is said aloud --------------------------------------------------------

  let saying;

  function announce(words) {
    const toast = document.getElementById("announcement");
    clearTimeout(saying);
    toast.textContent = words;
    toast.hidden = false;
    saying = setTimeout(() => { toast.hidden = true; }, 10000);
  }

  // A receipt stays while somebody reads it with the pointer or the keys.
  function leaveSoon(receipt) {
    if (receipt.isLeaving) return;
    receipt.isLeaving = true;
    setTimeout(function leave() {
      if (receipt.matches(":hover, :focus-within")) setTimeout(leave, 1000);
      else receipt.remove();
    }, receipt.dataset.leaves * 1000);
  }

  // The details of a row are asked for once it comes into sight. One watcher for all rows: htmx makes
  // one for each, which takes a browser as long as the rest of the page.
  const watcher = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      htmx.ajax("GET", target.dataset.details, { source: target, target, swap: "innerHTML" }).catch(() => {}); // htmx says it
    }
  });

  function watchRows(root) {
    for (const row of all("[data-details]", root)) {
      if (!row.isWatched) watcher.observe(row);
      row.isWatched = true; // a swap keeps the row
    }
  }

  function showState(root = document) {
    showTimes(root);
    watchRows(root);
    showDays();
    restoreDrafts(root);
    for (const receipt of all("[data-leaves]", root)) leaveSoon(receipt);
    const titled = document.querySelector("[data-title]");
    if (titled && document.title !== titled.dataset.title) document.title = titled.dataset.title;
    const said = document.querySelector("[data-announce]");
    if (said) {
      announce(said.dataset.announce);
      delete said.dataset.announce;
    }
  }

  // --- Forms that somebody is filling in stay as they are ----------------------------------------

  const dirty = new WeakSet();
  addEventListener("input", (event) => { if (event.target.form) dirty.add(event.target.form); });
  addEventListener("reset", (event) => dirty.delete(event.target));
  addEventListener("submit", (event) => dirty.delete(event.target));

  const isBusy = (region) => all("form", region).some(
    (form) => dirty.has(form) || form.matches("[data-entered]") || (form.contains(document.activeElement) && isWriting(document.activeElement)));

  for (const name of ["htmx:sseBeforeMessage", "htmx:oobBeforeSwap"]) {
    addEventListener(name, (event) => {
      const region = event.target;
      if (!region.matches("[data-keeps-forms]")) return;
      const [was, is] = [region, event.detail.fragment].map((one) => one?.querySelector?.("[data-version]")?.dataset.version);
      const isSame = was && was === is; // a stream that comes back begins with what there is
      const isSending = Boolean(region.querySelector("form.htmx-request"));
      if (isSending) region.late = event.detail.fragment; // until its own answer is there
      if (!isSame && !isSending && !isBusy(region)) return;
      event.preventDefault();
      if (isSame || isSending) return;
      const notice = document.getElementById(region.dataset.keepsForms);
      if (notice) notice.hidden = false;
    });
  }

  // --- Drafts stay in this browser until they are sent: for one person, one thing and one field ----

  const DRAFTS = "outlast-draft/";
  const KEPT_DAYS = 14;

  function stored(act) { // a browser may keep nothing, or no more
    try { return act(localStorage); } catch { return null; }
  }

  function draftKey(field) {
    const owner = field.closest("[data-drafts]")?.dataset.drafts;
    return owner ? `${DRAFTS}${owner}/${field.id}` : "";
  }

  function keepDraft(field) {
    const key = draftKey(field);
    if (!key) return;
    const text = field.value === field.defaultValue ? "" : field.value;
    stored((drafts) => (text ? drafts.setItem(key, JSON.stringify({ text, at: Date.now() })) : drafts.removeItem(key)));
    if (!text) document.getElementById(`${field.id}-draft`)?.remove();
  }

  function restoreDrafts(root) {
    for (const field of all("textarea[data-draft]", root)) {
      if (field.hasDraft || field.value !== field.defaultValue) continue;
      field.hasDraft = true;
      const draft = stored((drafts) => JSON.parse(drafts.getItem(draftKey(field))));
      if (typeof draft?.text !== "string" || draft.text === field.value) continue;
      field.value = draft.text;
      dirty.add(field.form);
      const folded = field.closest("details");
      if (folded) folded.open = true;
      const note = Object.assign(document.createElement("p"), { id: `${field.id}-draft`, className: "hint draft-note" });
      const drop = Object.assign(document.createElement("button"), { type: "button", className: "quiet small", textContent: "Discard" });
      drop.addEventListener("click", () => {
        field.value = field.defaultValue;
        dirty.delete(field.form);
        keepDraft(field);
        field.focus();
      });
      note.append(`Your draft of ${inWords(new Date(draft.at), "date")}, which this browser has kept. `, drop);
      field.after(note);
      field.setAttribute("aria-describedby", note.id);
    }
  }

  addEventListener("input", (event) => { if (event.target.matches("textarea[data-draft]")) keepDraft(event.target); });
  addEventListener("submit", (event) => {
    if (event.target.matches("[data-forgets]")) forgetDrafts(() => true);
  });

  function forgetDrafts(isOver) {
    stored((drafts) => {
      for (const key of Object.keys(drafts).filter((one) => one.startsWith(DRAFTS))) {
        const at = stored(() => JSON.parse(drafts.getItem(key)).at);
        if (isOver(at)) drafts.removeItem(key);
      }
    });
  }

  forgetDrafts((at) => !(at > Date.now() - KEPT_DAYS * 86400000));

  // --- Live regions ------------------------------------------------------------------------------

  function showConnection(isOn) {
    for (const element of all(".live")) {
      const isLive = isOn && !document.querySelector(".trouble.is-no_server");
      element.classList.toggle("is-off", !isLive);
      const words = isLive ? "Live" : isOn ? "Not live" : "Reconnecting";
      if (element.textContent !== words) element.textContent = words;
    }
  }

  addEventListener("htmx:sseClose", (event) => {
    if (event.detail.type !== "message") return;
    for (const element of all(".live")) element.hidden = true; // the run has ended: nothing follows
  });
  addEventListener("htmx:sseOpen", () => showConnection(true));
  addEventListener("htmx:sseError", () => showConnection(false));
  addEventListener("htmx:sseMessage", () => showConnection(true)); // it may say that the server is away

  // A list that grows at its end stays at its end, unless the reader has scrolled up.
  const following = () => all("[data-follow]");

  function noteEnds() {
    for (const list of following()) {
      if (list.offsetParent !== null) list.isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 48;
    }
  }

  function followEnds() {
    for (const list of following()) if (list.isAtEnd ?? true) list.scrollTop = list.scrollHeight;
  }

  addEventListener("htmx:sseBeforeMessage", noteEnds);
  addEventListener("htmx:sseMessage", followEnds);
  // Whoever writes a comment sees the newest one.
  addEventListener("htmx:sseMessage", () => {
    if (document.activeElement?.closest("#comment")) document.querySelector("#comments > li:last-child")?.scrollIntoView({ block: "nearest" });
  });
  // The other side of a conversation had no height while it was hidden.
  addEventListener("change", (event) => { if (event.target.name === "side") followEnds(); });
  // The names of chosen files stand beside the button.
  function showNames(field) {
    document.getElementById(field.dataset.names).textContent = [...field.files].map((one) => one.name).join(", ");
  }

  addEventListener("change", (event) => { if (event.target.matches?.("input[data-names]")) showNames(event.target); });

  // A draft of the agent goes below what somebody has written.
  addEventListener("htmx:afterSwap", (event) => {
    const draft = event.target.querySelector?.("[data-fills]");
    if (!draft) return;
    const field = document.getElementById(draft.dataset.fills);
    field.value = [field.value.trimEnd(), draft.dataset.text].filter(Boolean).join("\n\n");
    field.focus();
    followEnds();
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });

  // A saved reply goes where the cursor is; nothing is sent.
  const picker = document.querySelector("[data-picks]");

  function pick(button) {
    const field = document.getElementById(picker.dataset.picks);
    picker.open = false;
    field.focus();
    field.setRangeText(button.dataset.text, field.selectionStart, field.selectionEnd, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  if (picker) {
    const find = picker.querySelector("input");
    const fitting = () => all("button", picker).filter((button) => !button.parentElement.hidden);
    find.addEventListener("input", () => {
      const wanted = find.value.toLowerCase();
      for (const button of all("button", picker)) button.parentElement.hidden = !button.textContent.toLowerCase().includes(wanted);
    });
    picker.addEventListener("keydown", (event) => {
      const list = [find, ...fitting()];
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) list[Math.max(0, Math.min(list.length - 1, list.indexOf(document.activeElement) + step))].focus();
      else if (event.key === "Enter" && event.target === find && list[1]) pick(list[1]);
      else if (event.key === "Escape") {
        picker.open = false;
        picker.querySelector("summary").focus();
      } else return;
      event.preventDefault();
    });
    picker.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) pick(button);
    });
  }

  // A picture has no height until it is there.
  addEventListener("load", (event) => { if (event.target.closest?.("[data-follow]")) followEnds(); }, true);
  // What opens below a list takes room from it.
  addEventListener("toggle", (event) => { if (!event.target.closest("[data-follow]")) followEnds(); }, true);

  // A part that is asked for again and again stays as it is while there is no answer, and says so.
  addEventListener("htmx:afterRequest", ({ detail: { elt, xhr } }) => {
    if (elt.matches?.("[hx-trigger*=every]")) elt.classList.toggle("is-stale", xhr.status === 0 || xhr.status >= 400);
  });

  // Earlier entries come in above: what one looks at stays where it is.
  let stays = null;

  addEventListener("htmx:beforeSwap", (event) => {
    if (!event.target.matches(".earlier")) return;
    const list = event.target.parentElement;
    let next = event.target.nextElementSibling || list.nextElementSibling.firstElementChild;
    if (next.matches(".day")) next = next.nextElementSibling;
    stays = { next, list, place: [...list.children].indexOf(event.target), top: next.getBoundingClientRect().top };
  });

  addEventListener("htmx:afterSwap", () => {
    if (!stays) return;
    const { next, list, place, top } = stays;
    stays = null;
    showDays();
    list.closest(".scrolls").scrollTop += next.getBoundingClientRect().top - top;
    const added = list.children[place];
    (added?.querySelector("a, [data-row]") || list.closest(".scrolls")).focus({ preventScroll: true });
  });

  // A link to a step or a message leads there, also if the page shows another part of the list.
  function showAddressed() {
    const [, kind, key] = location.hash.match(/^#(step-|m-i)(\d+)$/) || [];
    if (!kind) return;
    const found = document.getElementById(location.hash.slice(1));
    const query = new URLSearchParams(location.search);
    const name = kind === "step-" ? "step" : "message";
    if (!found) {
      if (query.get(name) === key) return; // there is none
      query.set(name, key);
      return void location.replace(`?${query}${location.hash}`);
    }
    const side = document.getElementById(kind === "step-" ? "side-run" : "side-talk");
    if (side) side.checked = true;
    found.closest("[data-follow]").isAtEnd = false;
    found.scrollIntoView({ block: "center" });
    found.querySelector("[data-row]")?.focus({ preventScroll: true });
  }

  addEventListener("hashchange", showAddressed);
  const folded = document.getElementById(location.hash.slice(1));
  if (folded?.matches("details")) {
    folded.open = true;
    folded.querySelector("input:not([type=hidden]), textarea, select")?.focus();
  }

  // What somebody wrote goes when it was sent, but not what they have written since.
  addEventListener("htmx:beforeRequest", (event) => {
    if (!event.target.matches("form[data-clears]")) return;
    for (const field of all("textarea, input:not([type=hidden])", event.target)) field.sent = field.value;
  });

  addEventListener("htmx:afterRequest", (event) => {
    const said = event.detail.xhr?.getResponseHeader("Desk-Said");
    if (said) {
      announce(decodeURIComponent(said));
      for (const region of all("[data-keeps-forms]").filter((one) => one.late)) region.replaceChildren(...region.late.childNodes);
      for (const region of all("[data-keeps-forms]")) htmx.process(region);
      showState();
    }
    for (const region of all("[data-keeps-forms]")) region.late = null;
    const form = event.detail.elt; // what it has sent may have taken it from the page
    // What was refused is shown, too, which htmx counts as a success.
    if (!event.detail.successful || event.detail.xhr.status >= 400 || !form.matches("form")) return;
    if (form.dataset.closes) document.getElementById(form.dataset.closes).close();
    if (event.detail.xhr.getResponseHeader("Desk-Preview")) return; // nothing is sent yet
    for (const field of all("textarea[data-draft]", form)) stored((drafts) => drafts.removeItem(draftKey(field)));
    if (!form.matches("[data-clears]")) return;
    for (const field of all("textarea, input:not([type=hidden])", form)) {
      if (field.sent !== undefined && field.value.startsWith(field.sent)) field.value = field.value.slice(field.sent.length);
      if (field.matches("[data-draft]")) keepDraft(field);
      if (field.type === "file") showNames(field);
    }
  });

  // The focused row may leave with a swap: then the row that takes its place has the focus. So has a
  // button that comes back with the same id.
  let kept = null;

  const chosen = new Set();

  function keepFocus() {
    for (const box of all("input[data-keep]")) chosen[box.checked ? "add" : "delete"](box.id);
    const active = document.activeElement;
    const row = active?.closest?.("[data-row]");
    if (row) kept = { id: row.id, at: rows().indexOf(row), inner: active.id };
    else if (active?.id && active.matches("button")) kept = { id: "", at: -1, inner: active.id };
  }

  function restoreFocus() {
    for (const box of all("input[data-keep]")) box.checked = chosen.has(box.id) && !box.disabled;
    countChosen();
    const isFree = !document.activeElement || document.activeElement === document.body;
    if (!kept || !isFree) return;
    const same = document.getElementById(kept.inner) || document.getElementById(kept.id);
    if (same?.disabled) return; // until its request is over
    const list = rows();
    const row = same || list[Math.min(kept.at, list.length - 1)];
    if (row) focusRow(row);
    kept = null;
  }

  addEventListener("htmx:beforeRequest", keepFocus); // a button that is disabled loses the focus
  addEventListener("htmx:beforeSwap", keepFocus);
  addEventListener("htmx:sseBeforeMessage", keepFocus);
  addEventListener("htmx:afterSwap", (event) => { showState(event.target); restoreFocus(); });
  addEventListener("htmx:sseMessage", () => { showState(); restoreFocus(); });
  addEventListener("htmx:sendError", (event) => {
    if (event.detail.requestConfig?.verb === "get") return; // a look, which comes again
    announce("The desk does not answer. Nothing was sent; try again.");
  });

  // --- Keys ----------------------------------------------------------------------------------------

  const rows = () => all("[data-row]").filter((row) => row.offsetParent !== null);
  const mainLink = (row) => (row.matches("a") ? row : row.querySelector("a[data-open-row]") || row.querySelector("a"));

  function focusRow(row) {
    const target = row.matches("a, button, input") ? row : mainLink(row) || row;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "nearest" });
  }

  function move(step) {
    const list = rows();
    if (!list.length) return false;
    const at = list.indexOf(document.activeElement?.closest("[data-row]"));
    focusRow(list[at < 0 ? (step > 0 ? 0 : list.length - 1) : Math.max(0, Math.min(list.length - 1, at + step))]);
    return true;
  }

  let first = "";
  let firstAt = 0;

  function press(key) {
    const row = document.activeElement?.closest("[data-row]");
    const find = (root) => all(`[data-key="${CSS.escape(key)}"]`, root).find((one) => one.offsetParent !== null);
    const found = (row && find(row)) || all(`[data-key="${CSS.escape(key)}"]`).find(
      (one) => (one.offsetParent !== null || one.closest("[data-side]")) && !one.closest("[data-row]"));
    if (!found) return false;
    const side = document.getElementById(found.closest("[data-side]")?.dataset.side); // it may be behind another one
    if (side && found.offsetParent === null) side.click();
    if (found.matches("details")) {
      found.open = true;
      found.querySelector("input:not([type=hidden]), textarea, select, button")?.focus();
    } else if (found.disabled || found.getAttribute("aria-disabled") === "true") {
      announce(document.getElementById(found.getAttribute("aria-describedby"))?.textContent || "Not possible now.");
    } else if (isWriting(found)) {
      found.focus();
    } else {
      found.focus();
      found.click();
    }
    return true;
  }

  addEventListener("keydown", (event) => {
    const sends = event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea[data-sends]");
    if (sends && !event.isComposing) {
      event.preventDefault();
      const button = event.target.form.querySelector("button");
      if (button.getAttribute("aria-disabled") === "true") announce(document.getElementById(button.getAttribute("aria-describedby")).textContent);
      else event.target.form.requestSubmit();
    }
  });

  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && isWriting(event.target)) return void event.target.blur();
    if (isWriting(event.target) || document.querySelector("dialog[open]")) return;
    const both = Date.now() - firstAt < 1200 && first ? `${first} ${event.key}` : "";
    first = "";
    let done = both !== "" && press(both);
    if (!done && event.key === "?") done = open("keys");
    if (!done && event.key === ".") {
      withZones = !withZones;
      showTimes();
      done = true;
    }
    if (!done && (event.key === "j" || event.key === "k")) done = move(event.key === "j" ? 1 : -1);
    if (!done && event.key.length === 1) done = press(event.key);
    if (!done && event.key === "g") [first, firstAt, done] = ["g", Date.now(), true];
    if (done) event.preventDefault();
  });

  function open(id) {
    const dialog = document.getElementById(id);
    if (dialog && !dialog.open) dialog.showModal();
    return Boolean(dialog);
  }

  addEventListener("click", (event) => {
    const opener = event.target.closest?.("[data-open]");
    if (opener) open(opener.dataset.open);
    const closer = event.target.closest?.("[data-close]");
    if (closer) document.getElementById(closer.dataset.close).close();
    const folds = event.target.closest?.("[data-folds]");
    if (folds) {
      const isOpen = folds.getAttribute("aria-expanded") !== "true";
      folds.setAttribute("aria-expanded", isOpen);
      if (isOpen) document.getElementById(folds.getAttribute("aria-controls")).querySelector("select, input:not([type=hidden])").focus();
    }
    const picture = event.target.closest?.("a[data-enlarges]");
    if (picture && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      enlarge(picture);
    }
    if (event.target.id === "enlarged") event.target.close(); // beside the picture
    const blocked = event.target.closest?.("button[aria-disabled=true]");
    if (blocked) event.preventDefault();
  });

  function enlarge(link) {
    const dialog = document.getElementById("enlarged");
    dialog.querySelector("div").replaceChildren(link.querySelector("img").cloneNode());
    dialog.querySelector("a").href = link.href;
    dialog.showModal(); // Escape closes it, and the focus goes back to the picture
  }

  // A question before something that may surprise somebody else.
  addEventListener("htmx:confirm", (event) => {
    const { question, issueRequest, elt } = event.detail;
    if (!question) return;
    event.preventDefault();
    const dialog = document.getElementById("question");
    document.getElementById("question-words").textContent = question;
    dialog.querySelector("button[value=yes]").textContent = elt.dataset.yes || "Yes";
    dialog.returnValue = "";
    dialog.onclose = () => { if (dialog.returnValue === "yes") issueRequest(true); };
    dialog.showModal();
  });

  // A time is sent with the zone of its reader.
  addEventListener("input", (event) => {
    const field = event.target;
    if (!field.dataset?.instant) return;
    document.getElementById(field.dataset.instant).value = field.value && new Date(field.value).toISOString();
    document.getElementById(field.dataset.unsets).value = "";
  });

  // Filters apply when they are chosen; where a button applies them, several can be chosen first.
  addEventListener("change", (event) => {
    const form = event.target.closest?.("form[data-apply]");
    if (form && form.querySelector(".apply").offsetParent === null) form.requestSubmit();
    const every = event.target.closest?.("[data-checks]");
    if (every) {
      for (const box of all(`input[name="${CSS.escape(every.dataset.checks)}"]`)) box.checked = every.checked && !box.disabled;
    }
    countChosen();
  });

  function countChosen() {
    for (const count of all("[data-chosen]")) {
      const boxes = all(`input[name="${CSS.escape(count.dataset.chosen)}"]`).filter((box) => !box.disabled);
      const chosenNow = boxes.filter((box) => box.checked).length;
      const words = `${chosenNow} of ${boxes.length} selected`;
      if (count.textContent !== words) count.textContent = words;
      for (const every of all(`[data-checks="${CSS.escape(count.dataset.chosen)}"]`)) {
        every.checked = chosenNow > 0 && chosenNow === boxes.length;
        every.indeterminate = chosenNow > 0 && chosenNow < boxes.length;
      }
    }
  }

  // --- Notices of the desktop: only after somebody has asked for them, and without a word of others ---

  const bell = document.querySelector("[data-notify]");
  const listed = () => new Set(all(".inbox-row").map((row) => row.id));
  let known = listed();

  const wantsNotices = () => localStorage.getItem("outlast-notices") === "on" && Notification.permission === "granted";

  function showBell() {
    bell.hidden = false;
    bell.setAttribute("aria-pressed", wantsNotices());
    bell.textContent = wantsNotices() ? "Notices on" : "Notify me";
  }

  if (bell && "Notification" in window && isSecureContext) {
    showBell();
    bell.addEventListener("click", async () => {
      if (wantsNotices()) localStorage.removeItem("outlast-notices");
      else if (await Notification.requestPermission() === "granted") localStorage.setItem("outlast-notices", "on");
      else announce("This browser does not let the desk notify you. Its settings for this site allow it.");
      showBell();
    });
    addEventListener("htmx:sseMessage", () => {
      const now = listed();
      const added = [...now].filter((id) => !known.has(id)).length;
      known = now;
      if (!added || document.hasFocus() || !wantsNotices()) return;
      try { tell(added); } catch { bell.hidden = true; } // phones have notices of installed pages only
    });
  }

  function tell(added) {
    const notice = new Notification(`${added} new ${added === 1 ? "request waits" : "requests wait"}`, { tag: "outlast-inbox", body: document.title });
    notice.onclick = () => { focus(); notice.close(); };
  }

  // --- The picture of the agents: a line from each row that leads to one ---------------------------

  const graph = document.querySelector(".graph");

  function wayOf(row) {
    const [card, target] = [row.closest(".node"), document.getElementById(row.dataset.way)].map((one) => one.getBoundingClientRect());
    const base = graph.getBoundingClientRect();
    const line = row.getBoundingClientRect();
    const [isLevel, isForward] = [card.left === target.left, card.left < target.left];
    const from = (isLevel || isForward ? card.right : card.left) - base.left;
    const to = (isForward ? target.left : target.right) - base.left;
    const [y, end] = [line.top + Math.min(12, line.height / 2) - base.top, target.top + 24 - base.top];
    const bend = isLevel ? 40 : (isForward ? 1 : -1) * Math.max(28, Math.abs(to - from) / 2);
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", `M${from} ${y}C${from + bend} ${y} ${to + (isLevel ? bend : -bend)} ${end} ${to} ${end}`);
    path.setAttribute("class", row.className);
    path.setAttribute("marker-end", `url(#arrow${row.matches(".is-taken") ? "-taken" : ""})`);
    return path;
  }

  if (graph) new ResizeObserver(() => graph.querySelector(".ways g").replaceChildren(...all("[data-way]", graph).map(wayOf))).observe(graph);

  showState();
  followEnds();
  showAddressed();
  setInterval(() => showTimes(), 20000);
})();
