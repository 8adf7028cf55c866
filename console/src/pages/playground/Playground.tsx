import { useReducer, useRef, useState } from "react";

import { paths } from "@/addresses/paths";
import { useContainer } from "@/addresses/useContainer";
import { messageOf } from "@/api/problem";
import { Empty } from "@/components/Patterns";

import { ask, type Message, type Parameters, type Timings } from "./chat";
import { Composer } from "./Composer";
import { Conversation, type Turn } from "./Conversation";
import { Head } from "./Head";
import { OneRequest } from "./OneRequest";
import type { Kind } from "./oneRequest";
import classes from "./Playground.module.css";
import { RequestPanel } from "./RequestPanel";
import { useServer } from "./useServer";
import { useSessionKey } from "./useSessionKey";

const BEGIN: Parameters = { model: "", system: "", temperature: 0.7, maxTokens: 512, stream: true };
const NO_TIMINGS: Timings = { status: null, requestId: null, firstTokenMs: null, totalMs: null, tokens: 0, pieces: 0 };

/** What a container of this category is asked first. */
const KIND_OF: Record<string, Kind> = { Embeddings: "embeddings", Image: "images" };

type Change = { kind: "ask"; question: string } | { kind: "last"; update: (turn: Turn) => Turn } | { kind: "clear" };

function turnsAfter(turns: Turn[], change: Change): Turn[] {
  if (change.kind === "clear") return [];
  if (change.kind === "ask") {
    return [...turns, { question: change.question, answer: "", timings: NO_TIMINGS, state: "asking", error: null }];
  }
  return turns.map((turn, index) => (index === turns.length - 1 ? change.update(turn) : turn));
}

/** The running container, asked through the gateway like by any other client: a chat with its timings, or one request. */
export function Playground() {
  const container = useContainer();
  const [parameters, setParameters] = useState(BEGIN);
  const [kind, setKind] = useState<"chat" | Kind>(() => KIND_OF[container.category ?? ""] ?? "chat");
  const [turns, dispatch] = useReducer(turnsAfter, []);
  const { obtain, endsAt } = useSessionKey(container.project_id);
  const { served, find } = useServer(container, obtain);
  const abort = useRef<AbortController | null>(null);
  const busy = turns.at(-1)?.state === "asking";
  const last = (update: (turn: Turn) => Turn) => dispatch({ kind: "last", update });

  const receiptAt = (requestId: string) => paths.receipt(container.project_id, container.id, requestId);

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
      const key = await obtain();
      const { base, models } = await find();
      await ask({
        url: `${container.endpoint_url}${base}`,
        key,
        messages: [...before, { role: "user", content: question }],
        parameters: { ...parameters, model: parameters.model || models[0] || "" },
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
        <Head container={container} served={served} parameters={parameters} turns={turns} clear={() => dispatch({ kind: "clear" })} kind={kind} setKind={setKind} />
        {kind === "chat" ? (
          <>
            <Conversation turns={turns} send={send} receiptAt={receiptAt} />
            <Composer busy={busy} begun={() => void find()} send={send} stop={() => abort.current?.abort()} />
          </>
        ) : (
          <OneRequest
            key={kind}
            kind={kind}
            container={container}
            model={parameters.model}
            obtainKey={obtain}
            find={find}
            receiptAt={receiptAt}
          />
        )}
      </main>
      <RequestPanel
        turn={turns.at(-1)}
        kind={kind}
        receiptAt={receiptAt}
        models={served.models}
        find={() => void find()}
        parameters={parameters}
        setParameters={setParameters}
        keyEndsAt={endsAt}
      />
    </div>
  );
}
