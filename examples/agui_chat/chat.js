// A chat page with the client of AG-UI. `npm run build` makes static/chat.js of it.
import { HttpAgent } from "@ag-ui/client";

const log = document.querySelector("#log");
const form = document.querySelector("form");
const note = document.querySelector("#note");

const { token, thread } = await (await fetch("/token")).json();
const agent = new HttpAgent({
  url: "/desk/agui/Shop",
  threadId: thread,
  headers: { Authorization: `Bearer ${token}` },
});

// The stream goes on after an answer, so that words of a colleague arrive, too.
const FOLLOW = { forwardedProps: { outlast: { follow: true } } };
let opened = 0;

function show() {
  const shown = agent.messages.filter((one) => one.role === "user" || one.role === "assistant");
  // textContent: what a model writes is text, and never HTML.
  log.replaceChildren(
    ...shown.map((one) => {
      const item = document.createElement("li");
      item.className = one.role;
      item.textContent = one.content ?? "";
      return item;
    }),
  );
  const state = agent.state?.outlast ?? {};
  note.textContent = state.ended ? "The conversation has ended." : (state.waitsFor ?? "");
  form.elements.send.disabled = Boolean(state.ended);
}

agent.subscribe({ onMessagesChanged: show, onStateChanged: show });

async function open() {
  const mine = ++opened;
  while (mine === opened && !agent.state?.outlast?.ended) {
    try {
      await agent.runAgent(FOLLOW);
    } catch (error) {
      console.warn(error);
    }
    // The stream has broken off: the same request goes on from what this page has.
    if (mine === opened) await new Promise((done) => setTimeout(done, 1000));
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = form.elements.text.value.trim();
  if (!text) return;
  form.elements.text.value = "";
  opened += 1;
  // Two streams at once would write into the same messages.
  await agent.detachActiveRun();
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  show();
  open();
});

open();
