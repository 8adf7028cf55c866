import { Button, TextInput } from "@mantine/core";
import { Check, LoaderCircle } from "lucide-react";
import { type Ref, useState } from "react";

import { HubToken } from "./HubToken";
import { ANEW, type ModelPlan, type Origin } from "./origin";
import classes from "./Start.module.css";
import type { Asked } from "./useModelPlan";

interface ModelFieldProps {
  origin: Origin;
  change: (changes: Partial<Origin>) => void;
  asked: Asked;
  token: string;
  setToken: (token: string) => void;
  error: string | undefined;
  input: Ref<HTMLInputElement>;
  goOn: () => void;
}

/** Refusals that a token may change. */
const WANTS_TOKEN = new Set(["model_gated", "model_not_found", "hub_token_refused"]);
/** Refusals that time may change. */
const PASSING = new Set(["hub_unreachable", "hub_misbehaves", "too_many_lookups", "connection_lost"]);

export function ModelField({ origin, change, asked, token, setToken, error, input, goOn }: ModelFieldProps) {
  const [showsToken, setShowsToken] = useState(token !== "");
  const { refusal } = asked;
  // Once it is wanted it stays, also while the hub is asked again with it.
  if (!showsToken && refusal && WANTS_TOKEN.has(refusal.reason)) setShowsToken(true);
  return (
    <>
      <div>
        <TextInput
          ref={input}
          label="Model"
          placeholder="hf:Qwen/Qwen2.5-7B-Instruct"
          value={origin.model}
          error={refusal?.message ?? error}
          onChange={(event) => change({ model: event.currentTarget.value, ...ANEW, ...forgottenTemplate(origin) })}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.nativeEvent.isComposing) goOn();
          }}
          rightSection={<Mark asked={asked} />}
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12, height: 40 } }}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
        />
        <p className={classes.answer} role="status">
          {refusal ? <span className="visually-hidden">{refusal.message}</span> : words(asked, error)}
        </p>
        <div className={classes.fieldActions}>
          {refusal && PASSING.has(refusal.reason) ? (
            <Button variant="default" size="xs" onClick={asked.again}>
              Try again
            </Button>
          ) : null}
          {showsToken || asked.plan ? null : (
            <Button variant="subtle" size="xs" className={classes.quietButton} onClick={() => setShowsToken(true)}>
              Private or gated? Give a token
            </Button>
          )}
        </div>
      </div>
      {showsToken ? <HubToken token={token} use={setToken} /> : null}
    </>
  );
}

/** A template that was chosen by itself stays; one that was only a preference for the model before goes with it. */
function forgottenTemplate(origin: Origin): Partial<Origin> {
  return origin.kind === "template" ? {} : { template: null };
}

function Mark({ asked }: { asked: Asked }) {
  if (asked.isAsking) return <LoaderCircle size={16} strokeWidth={1.5} className={classes.turning} aria-hidden />;
  return asked.plan ? <Check size={16} strokeWidth={2} color="var(--m-ok)" aria-hidden /> : null;
}

function words({ plan, isAsking }: Asked, error: string | undefined): string {
  if (plan) return found(plan);
  if (isAsking) return "Asking the hub …";
  return error ? "" : "The model's id on the hub, or its page's URL.";
}

/** "Found: public, apache-2.0, 4 files." */
function found({ model }: ModelPlan): string {
  if (!model) return "";
  const who = model.private ? "private" : model.gated ? "gated" : "public";
  const files = model.files === 1 ? "1 file" : `${model.files} files`;
  return `Found: ${[who, model.license, files].filter(Boolean).join(", ")}.`;
}
