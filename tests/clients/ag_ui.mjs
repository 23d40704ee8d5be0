// The real clients of AG-UI and CopilotKit, driven by a test: a command a line, a reply a line.
//
// Commands run beside each other, so that a test can look at a run while it streams.
import { HttpAgent } from "@ag-ui/client";
import { ProxiedCopilotRuntimeAgent } from "@copilotkit/core";
import readline from "node:readline";

const agents = new Map();

function write(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

// The clients warn on the console; a test reads that from standard error.
for (const name of ["log", "info", "warn"]) console[name] = (...words) => console.error(...words);

function look(agent) {
  return {
    messages: agent.messages,
    state: agent.state,
    interrupts: agent.pendingInterrupts,
    running: agent.isRunning,
    positions: agent.sent,
  };
}

// A fetch that goes on from the last event that its agent has applied, as a front end may have one.
// What was read and not applied yet is lost with the page.
function resuming(sent) {
  let last;
  let read = [];
  const applied = () => (last = read.shift() ?? last);
  const resumed = async (url, init) => {
    read = [];
    const headers = last ? { ...init.headers, "Last-Event-ID": last } : init.headers;
    sent.push(headers["Last-Event-ID"] ?? null);
    const answer = await fetch(url, { ...init, headers });
    const decoder = new TextDecoder();
    let text = "";
    const watched = new TransformStream({
      transform(piece, controller) {
        text += decoder.decode(piece, { stream: true });
        const events = text.split("\n\n");
        text = events.pop();
        for (const one of events) {
          if (/^data: /m.test(one)) read.push(/^id: (.*)$/m.exec(one)?.[1]);
        }
        controller.enqueue(piece);
      },
    });
    return new Response(answer.body.pipeThrough(watched), answer);
  };
  return [resumed, applied];
}

const commands = {
  open({ name, kind, url, agent, thread, headers, resumes }) {
    const sent = [];
    const [resumed, applied] = resuming(sent);
    const opened =
      kind === "copilotkit"
        ? new ProxiedCopilotRuntimeAgent({
            runtimeUrl: `${url}/copilotkit`,
            agentId: agent,
            threadId: thread,
            headers,
            transport: "auto",
          })
        : new HttpAgent({
            url: `${url}/agui/${encodeURIComponent(agent)}`,
            threadId: thread,
            headers,
            ...(resumes && { fetch: resumed }),
          });
    opened.sent = sent;
    opened.subscribe({
      onEvent: ({ event }) => {
        applied();
        write({ from: name, event });
      },
    });
    agents.set(name, opened);
    return {};
  },
  async say({ name, text, messageId, ...parameters }) {
    const agent = agents.get(name);
    agent.addMessage({ id: messageId ?? crypto.randomUUID(), role: "user", content: text });
    await agent.runAgent(parameters);
    return look(agent);
  },
  async run({ name, ...parameters }) {
    const agent = agents.get(name);
    await agent.runAgent(parameters);
    return look(agent);
  },
  async connect({ name, ...parameters }) {
    const agent = agents.get(name);
    await agent.connectAgent(parameters);
    return look(agent);
  },
  async detach({ name }) {
    await agents.get(name).detachActiveRun();
    return look(agents.get(name));
  },
  stop({ name }) {
    agents.get(name).abortRun();
    return {};
  },
  look({ name }) {
    return look(agents.get(name));
  },
  // The next test begins: what still streams is closed, as the pages of the last one are.
  async forget() {
    const opened = [...agents.values()];
    agents.clear();
    await Promise.allSettled(opened.map((agent) => agent.detachActiveRun()));
    return {};
  },
};

async function answer(line) {
  const { id, do: what, ...rest } = JSON.parse(line);
  try {
    write({ id, result: await commands[what](rest) });
  } catch (error) {
    write({ id, error: String(error?.message ?? error) });
  }
}

process.on("unhandledRejection", (error) => write({ unhandled: String(error) }));
const lines = readline.createInterface({ input: process.stdin });
lines.on("line", answer);
lines.on("close", () => process.exit(0));
