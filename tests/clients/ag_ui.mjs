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
  };
}

const commands = {
  open({ name, kind, url, agent, thread, headers }) {
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
          });
    opened.subscribe({
      onEvent: ({ event }) => {
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
