// A chat page with the AI SDK's useChat. `npm run build` makes static/chat.js of it.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { useEffect, useMemo, useState } from "react";
import { createRoot } from "react-dom/client";

const AGENT = "/desk/vercel/Shop";

// The chat is the run: its id is all that a page has to remember. The messages are kept beside it,
// because the stream has the answer under way, and not the conversation before it.
const id = (localStorage.chat ??= `chat-${crypto.randomUUID()}`);
const kept = JSON.parse(localStorage.messages ?? "[]");

const transport = new DefaultChatTransport({
  api: AGENT,
  // With the last message that the page has sent, it also gets an answer that was finished meanwhile.
  prepareReconnectToStreamRequest: ({ id }) => {
    const last = JSON.parse(localStorage.messages ?? "[]").findLast((one) => one.role === "user");
    const query = last ? `?message=${encodeURIComponent(last.id)}` : "";
    return { api: `${AGENT}/${encodeURIComponent(id)}/stream${query}` };
  },
});

function Call({ part, decide, isBusy }) {
  const isAsked = part.state === "approval-requested";
  return (
    <div className="call">
      <code>
        {part.toolName}({JSON.stringify(part.input)})
      </code>
      {isAsked ? (
        <p>
          <button disabled={isBusy} onClick={() => decide({ id: part.approval.id, approved: true })}>
            Approve
          </button>
          <button disabled={isBusy} onClick={() => decide({ id: part.approval.id, approved: false })}>
            Reject
          </button>
        </p>
      ) : (
        <p className="state">{STATES[part.state] ?? "under way"}</p>
      )}
    </div>
  );
}

const STATES = {
  "approval-responded": "decided",
  "output-available": "done",
  "output-denied": "rejected",
  "output-error": "failed",
};

function Message({ message, decide, isBusy }) {
  return (
    <li className={message.role}>
      {message.parts.map((part, at) => {
        // React escapes it: what a model writes is text, and never HTML.
        if (part.type === "text") return <p key={at}>{part.text}</p>;
        if (part.type === "dynamic-tool") {
          // A stream that is still read would take the place of what is decided meanwhile.
          return <Call key={at} part={part} decide={decide} isBusy={isBusy} />;
        }
        return null;
      })}
    </li>
  );
}

function Chat() {
  const [text, setText] = useState("");
  const { messages, sendMessage, addToolApprovalResponse, resumeStream, status, error } = useChat({
    id,
    messages: useMemo(() => kept, []),
    transport,
    resume: kept.length > 0,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  useEffect(() => {
    localStorage.messages = JSON.stringify(messages);
  }, [messages]);
  const isBusy = status === "submitted" || status === "streaming";

  function send(event) {
    event.preventDefault();
    if (!text.trim() || isBusy) return;
    sendMessage({ text });
    setText("");
  }

  return (
    <main>
      <h1>Shop</h1>
      <ol id="log" aria-live="polite">
        {messages.map((one) => (
          <Message key={one.id} message={one} decide={addToolApprovalResponse} isBusy={isBusy} />
        ))}
      </ol>
      <p id="note" role="status">
        {isBusy ? "…" : ""}
      </p>
      {error && (
        <p role="alert">
          {words(error)} <button onClick={() => resumeStream()}>Go on</button>
        </p>
      )}
      <form onSubmit={send}>
        <label htmlFor="text">Your message</label>
        <input
          id="text"
          autoComplete="off"
          value={text}
          onChange={(event) => setText(event.target.value)}
          required
        />
        <button disabled={isBusy}>Send</button>
      </form>
    </main>
  );
}

// The desk says what is wrong in a sentence.
function words(error) {
  try {
    return JSON.parse(error.message).error.message;
  } catch {
    return error.message;
  }
}

createRoot(document.querySelector("#page")).render(<Chat />);
