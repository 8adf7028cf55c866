import { Button, Select, Textarea, TextInput } from "@mantine/core";
import { Check, SendHorizontal, Square, TriangleAlert } from "lucide-react";
import { useRef, useState } from "react";

import { messageOf } from "@/api/problem";
import type { Container } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import type { Served } from "@/containers/served";

import { type Draft, draftOf, type Kind, type Outcome, sendOne, shownAs } from "./oneRequest";
import classes from "./Playground.module.css";
import { ms } from "./timings";

interface OneRequestProps {
  kind: Kind;
  container: Container;
  model: string;
  obtainKey: () => Promise<string>;
  find: () => Promise<Served>;
  receiptAt: (requestId: string) => string;
}

const WORDS: Record<Exclude<Kind, "http">, { label: string; placeholder: string }> = {
  embeddings: { label: "Text to embed", placeholder: "A sentence to turn into numbers" },
  images: { label: "Prompt", placeholder: "What the picture shows" },
};

type State = { at: "rest" } | { at: "asking" } | { at: "done"; outcome: Outcome } | { at: "failed"; message: string };

/** Embeddings, a picture, or any GET and POST: sent through the gateway like any other request. */
export function OneRequest({ kind, container, model, obtainKey, find, receiptAt }: OneRequestProps) {
  const [text, setText] = useState("");
  const [plain, setPlain] = useState<Draft>({ method: "GET", path: `${container.api_path}/models`, body: "{}" });
  const [state, setState] = useState<State>({ at: "rest" });
  const abort = useRef<AbortController | null>(null);
  const ready = kind === "http" ? plain.path.trim() !== "" : text.trim() !== "";

  const send = async () => {
    abort.current = new AbortController();
    setState({ at: "asking" });
    try {
      const key = await obtainKey();
      const served = kind === "http" ? null : await find();
      const draft = served && kind !== "http" ? draftOf(kind, served.base, model || served.models[0] || "default", text.trim()) : plain;
      setState({ at: "done", outcome: await sendOne(container.endpoint_url, key, draft, abort.current.signal) });
    } catch (error) {
      const stopped = error instanceof DOMException && error.name === "AbortError";
      setState(stopped ? { at: "rest" } : { at: "failed", message: messageOf(error) });
    }
  };
  return (
    <div className={classes.one}>
      <form
        className={classes.oneForm}
        onSubmit={(event) => {
          event.preventDefault();
          if (ready && state.at !== "asking") void send();
        }}
      >
        {kind === "http" ? (
          <>
            <div className={classes.oneLine}>
              <Select
                aria-label="Method"
                className={classes.method}
                data={["GET", "POST"]}
                value={plain.method}
                onChange={(method) => setPlain({ ...plain, method: method === "POST" ? "POST" : "GET" })}
              />
              <TextInput
                aria-label="Path"
                className={classes.path}
                value={plain.path}
                onChange={(event) => setPlain({ ...plain, path: event.currentTarget.value })}
                spellCheck={false}
              />
            </div>
            {plain.method === "POST" ? (
              <Textarea
                label="Body, JSON"
                autosize
                minRows={3}
                maxRows={12}
                value={plain.body}
                onChange={(event) => setPlain({ ...plain, body: event.currentTarget.value })}
                classNames={{ input: "mono" }}
                spellCheck={false}
              />
            ) : null}
          </>
        ) : (
          <Textarea
            {...WORDS[kind]}
            autosize
            minRows={3}
            maxRows={12}
            value={text}
            onFocus={() => void find()}
            onChange={(event) => setText(event.currentTarget.value)}
          />
        )}
        {state.at === "asking" ? (
          <Button variant="default" leftSection={<Square size={14} strokeWidth={1.5} />} onClick={() => abort.current?.abort()}>
            Stop
          </Button>
        ) : (
          <Button type="submit" leftSection={<SendHorizontal size={14} strokeWidth={1.5} />} disabled={!ready}>
            Send
          </Button>
        )}
      </form>
      {state.at === "failed" ? (
        <p className={classes.error} role="alert">
          <TriangleAlert size={16} strokeWidth={1.5} aria-hidden /> {state.message}
        </p>
      ) : null}
      {state.at === "done" ? <Answer outcome={state.outcome} receiptAt={receiptAt} /> : null}
    </div>
  );
}

function Answer({ outcome, receiptAt }: { outcome: Outcome; receiptAt: (requestId: string) => string }) {
  const shown = shownAs(outcome);
  const ok = outcome.status < 400;
  return (
    <section className={classes.oneAnswer} aria-label="Answer">
      <p className={classes.oneReceipt}>
        <span className={ok ? classes.ok : classes.refused}>
          {ok ? <Check size={14} strokeWidth={2} aria-hidden /> : <TriangleAlert size={14} strokeWidth={1.5} aria-hidden />} {outcome.status}
        </span>
        <span>{ms(outcome.totalMs)}</span>
        <span>{outcome.type}</span>
        {outcome.requestId ? (
          <LinkTo to={receiptAt(outcome.requestId)}>
            <code>{outcome.requestId}</code>
          </LinkTo>
        ) : null}
      </p>
      {shown.kind === "vectors" ? (
        <p>
          {shown.count === 1 ? "1 vector" : `${shown.count} vectors`} of {shown.dimensions} numbers, beginning with{" "}
          <code>{shown.first.map((one) => one.toPrecision(4)).join(", ")}</code>
        </p>
      ) : null}
      {shown.kind === "picture" ? <img className={classes.picture} src={shown.source} alt="What the container drew" /> : null}
      {shown.kind === "text" ? (
        <pre className={`${classes.plain} mono`} tabIndex={0} aria-label="Body">
          {shown.text}
        </pre>
      ) : null}
    </section>
  );
}
