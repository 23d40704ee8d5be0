// The real chat client of the Vercel AI SDK, driven by a test: a command a line, a reply a line.
//
// Commands run beside each other, so that a test can look at a chat while it streams.
import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
} from "ai";
import readline from "node:readline";

const chats = new Map();

function write(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

for (const name of ["log", "info", "warn"]) console[name] = (...words) => console.error(...words);

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (at, message) =>
    (this.messages = [...this.messages.slice(0, at), message, ...this.messages.slice(at + 1)]);
  snapshot = (thing) => structuredClone(thing);
}

class Chat extends AbstractChat {
  constructor({ url, agent, chat, headers, messages }) {
    const state = new State();
    state.messages = messages ?? [];
    super({
      id: chat,
      state,
      transport: new DefaultChatTransport({
        api: `${url}/vercel/${encodeURIComponent(agent)}`,
        headers,
        prepareReconnectToStreamRequest: ({ api, id, headers }) => {
          const last = this.state.messages.findLast((one) => one.role === "user");
          const base = `${url}/vercel/${encodeURIComponent(agent)}/${encodeURIComponent(id)}/stream`;
          return { api: last ? `${base}?message=${encodeURIComponent(last.id)}` : base, headers };
        },
      }),
      onData: (part) => this.data.push(part),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    this.data = [];
  }

  look() {
    const { messages, status, error } = this.state;
    return { messages, status, error: error ? String(error.message ?? error) : null, data: this.data };
  }
}

const commands = {
  // The next test begins: what still streams is closed, as the pages of the last one are.
  async forget() {
    const opened = [...chats.values()];
    chats.clear();
    await Promise.allSettled(opened.map((chat) => chat.stop()));
  },
  open({ name, ...options }) {
    chats.set(name, new Chat(options));
  },
  look: ({ name }) => chats.get(name).look(),
  async send({ name, text }) {
    await chats.get(name).sendMessage({ text });
    return chats.get(name).look();
  },
  async resume({ name }) {
    await chats.get(name).resumeStream();
    return chats.get(name).look();
  },
  async regenerate({ name }) {
    await chats.get(name).regenerate();
    return chats.get(name).look();
  },
  async approve({ name, approval, approved, reason }) {
    await chats.get(name).addToolApprovalResponse({ id: approval, approved, reason });
    return chats.get(name).look();
  },
};

process.on("unhandledRejection", (error) => write({ unhandled: String(error?.stack ?? error) }));

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { id, do: what, ...fields } = JSON.parse(line);
  Promise.resolve()
    .then(() => commands[what](fields))
    .then(
      (result) => write({ id, result: result ?? null }),
      (error) => write({ id, error: String(error?.message ?? error) }),
    );
}
