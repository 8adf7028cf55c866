import { useReducer, useRef, useState } from "react";

import { useContainer } from "@/addresses/useContainer";
import { messageOf } from "@/api/problem";
import { Empty } from "@/components/Patterns";

import { ask, type Message, type Parameters, type Timings } from "./chat";
import { Composer } from "./Composer";
import { Conversation, type Turn } from "./Conversation";
import { Head } from "./Head";
import classes from "./Playground.module.css";
import { RequestPanel } from "./RequestPanel";
import { useSessionKey } from "./useSessionKey";

const BEGIN: Parameters = { model: "", system: "", temperature: 0.7, maxTokens: 512, stream: true };
const NO_TIMINGS: Timings = { status: null, requestId: null, firstTokenMs: null, totalMs: null, tokens: 0, pieces: 0 };

type Change = { kind: "ask"; question: string } | { kind: "last"; update: (turn: Turn) => Turn } | { kind: "clear" };

function turnsAfter(turns: Turn[], change: Change): Turn[] {
  if (change.kind === "clear") return [];
  if (change.kind === "ask") {
    return [...turns, { question: change.question, answer: "", timings: NO_TIMINGS, state: "asking", error: null }];
  }
  return turns.map((turn, index) => (index === turns.length - 1 ? change.update(turn) : turn));
}

/** A chat against the running container, through the gateway like any other client, with its timings. */
export function Playground() {
  const container = useContainer();
  const [parameters, setParameters] = useState(BEGIN);
  const [turns, dispatch] = useReducer(turnsAfter, []);
  const { obtain, endsAt } = useSessionKey(container.project_id);
  const abort = useRef<AbortController | null>(null);
  const busy = turns.at(-1)?.state === "asking";
  const last = (update: (turn: Turn) => Turn) => dispatch({ kind: "last", update });

  const send = async (question: string) => {
    const before: Message[] = turns
      .filter((turn) => turn.state === "done")
      .flatMap((turn) => [
        { role: "user", content: turn.question },
        { role: "assistant", content: turn.answer },
      ]);
    dispatch({ kind: "ask", question });
    abort.current = new AbortController();
    try {
      await ask({
        url: container.endpoint_url,
        key: await obtain(),
        messages: [...before, { role: "user", content: question }],
        parameters,
        signal: abort.current.signal,
        onText: (text) => last((turn) => ({ ...turn, answer: turn.answer + text })),
        onTimings: (some) => last((turn) => ({ ...turn, timings: { ...turn.timings, ...some } })),
      });
      last((turn) => ({ ...turn, state: "done" }));
    } catch (error) {
      const stopped = error instanceof DOMException && error.name === "AbortError";
      last((turn) => ({ ...turn, state: stopped ? "done" : "failed", error: stopped ? null : messageOf(error) }));
    }
  };
  if (container.state !== "RUNNING" && turns.length === 0) {
    return (
      <main className={classes.idle}>
        <h1 className="visually-hidden">Playground</h1>
        <Empty>The playground talks to a running container. Start {container.name}, then come back.</Empty>
      </main>
    );
  }
  return (
    <div className={classes.playground}>
      <main className={classes.chat}>
        <Head container={container} parameters={parameters} turns={turns} clear={() => dispatch({ kind: "clear" })} />
        <Conversation turns={turns} />
        <Composer busy={busy} send={send} stop={() => abort.current?.abort()} />
      </main>
      <RequestPanel turn={turns.at(-1)} parameters={parameters} setParameters={setParameters} keyEndsAt={endsAt} />
    </div>
  );
}
