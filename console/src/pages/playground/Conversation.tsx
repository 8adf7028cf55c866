import { Button } from "@mantine/core";
import { Check, TriangleAlert } from "lucide-react";
import { useEffect, useRef } from "react";

import { Copy } from "@/components/Copy";
import { LinkTo } from "@/components/LinkTo";

import type { Timings } from "./chat";
import classes from "./Playground.module.css";
import { Prose } from "./Prose";
import { ms, speed } from "./timings";

export interface Turn {
  question: string;
  answer: string;
  timings: Timings;
  state: "asking" | "done" | "failed";
  error: string | null;
}

/** For whoever only wants to see that it answers. */
const QUESTIONS = ["Hello, who are you?", "Where do ships moor?"];

interface ConversationProps {
  turns: Turn[];
  send: (question: string) => void;
  /** The address of a request's receipt. */
  receiptAt: (requestId: string) => string;
}

export function Conversation({ turns, send, receiptAt }: ConversationProps) {
  const end = useRef<HTMLDivElement>(null);
  const length = turns.reduce((all, turn) => all + turn.answer.length, turns.length);
  useEffect(() => {
    end.current?.scrollIntoView({ block: "end" });
  }, [length]);
  return (
    <div className={classes.turns} tabIndex={0} role="log" aria-label="Conversation">
      {turns.length === 0 ? (
        <div className={classes.begin}>
          <p>Ask it something. The answer comes from your container.</p>
          <div className={classes.questions}>
            {QUESTIONS.map((question) => (
              <Button key={question} variant="default" onClick={() => send(question)}>
                {question}
              </Button>
            ))}
          </div>
        </div>
      ) : null}
      {turns.map((turn, index) => (
        <article key={index} className={classes.turn}>
          <p className={classes.question}>{turn.question}</p>
          <div className={classes.answer}>
            <Prose text={turn.answer} />
            {turn.state === "asking" ? <span className={classes.caret} aria-label="answering" /> : null}
            {turn.error ? (
              <p className={classes.error} role="alert">
                <TriangleAlert size={16} strokeWidth={1.5} aria-hidden /> {turn.error}
              </p>
            ) : null}
          </div>
          {turn.state === "done" ? <Receipt turn={turn} receiptAt={receiptAt} /> : null}
          {turn.state === "failed" && turn.timings.requestId ? (
            <p className={classes.receipt}>
              <LinkTo to={receiptAt(turn.timings.requestId)}>What happened to this request</LinkTo>
            </p>
          ) : null}
        </article>
      ))}
      <div ref={end} />
    </div>
  );
}

function Receipt({ turn, receiptAt }: { turn: Turn; receiptAt: (requestId: string) => string }) {
  const { status, firstTokenMs, totalMs, requestId } = turn.timings;
  return (
    <p className={classes.receipt}>
      <span className={classes.ok}>
        <Check size={14} strokeWidth={2} aria-hidden /> {status}
      </span>
      {firstTokenMs === null ? null : <span>First token {ms(firstTokenMs)}</span>}
      <span>{ms(totalMs)}</span>
      {firstTokenMs === null ? null : <span>{speed(turn.timings)}</span>}
      {requestId ? <LinkTo to={receiptAt(requestId)}><code>{requestId}</code></LinkTo> : null}
      <Copy text={turn.answer} label="Copy answer" />
    </p>
  );
}
