import { Autocomplete, NumberInput, Slider, Switch, Textarea } from "@mantine/core";
import { KeyRound } from "lucide-react";

import { Copy } from "@/components/Copy";
import { LinkTo } from "@/components/LinkTo";
import { Facts } from "@/components/Page";

import type { Parameters, Timings } from "./chat";
import type { Turn } from "./Conversation";
import type { Kind } from "./oneRequest";
import classes from "./Playground.module.css";
import { ms, speed } from "./timings";

interface RequestPanelProps {
  turn: Turn | undefined;
  kind: "chat" | Kind;
  /** The address of a request's receipt. */
  receiptAt: (requestId: string) => string;
  /** That the container lists. */
  models: string[];
  /** Has it asked. */
  find: () => void;
  parameters: Parameters;
  setParameters: (parameters: Parameters) => void;
  keyEndsAt: Date | null;
}

export function RequestPanel({ turn, kind, receiptAt, models, find, parameters, setParameters, keyEndsAt }: RequestPanelProps) {
  const set = (changes: Partial<Parameters>) => setParameters({ ...parameters, ...changes });
  return (
    <aside className={classes.panel} aria-label="Request">
      {kind === "chat" ? <LastAnswer turn={turn} receiptAt={receiptAt} /> : null}
      <h2 className={classes.panelTitle}>Parameters</h2>
      <Autocomplete
        label="Model"
        description="Empty: the first that the container lists."
        placeholder={models[0] ?? "default"}
        data={[...new Set(models)]}
        value={parameters.model}
        onFocus={find}
        onChange={(model) => set({ model })}
        spellCheck={false}
      />
      {kind === "chat" ? <ChatParameters parameters={parameters} set={set} /> : null}
      <p className={classes.keyNote}>
        <KeyRound size={14} strokeWidth={1.5} aria-hidden />
        <span>
          Uses a key made for this page.{" "}
          {keyEndsAt
            ? `It ends at ${keyEndsAt.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}; the next question makes another.`
            : "It lives for 15 minutes, and is made anew when needed."}{" "}
          Requests count in metrics like any other.
        </span>
      </p>
    </aside>
  );
}

function ChatParameters({ parameters, set }: { parameters: Parameters; set: (changes: Partial<Parameters>) => void }) {
  return (
    <>
      <Textarea
        label="System message"
        autosize
        minRows={2}
        maxRows={6}
        value={parameters.system}
        onChange={(event) => set({ system: event.currentTarget.value })}
      />
      <div>
        <div className={classes.sliderHead}>
          <span>Temperature</span>
          <strong>{parameters.temperature}</strong>
        </div>
        <Slider
          thumbLabel="Temperature"
          min={0}
          max={2}
          step={0.1}
          label={null}
          value={parameters.temperature}
          onChange={(temperature) => set({ temperature: Math.round(temperature * 10) / 10 })}
        />
      </div>
      <NumberInput
        label="Max tokens"
        min={1}
        max={131_072}
        value={parameters.maxTokens}
        onChange={(value) => typeof value === "number" && set({ maxTokens: value })}
      />
      <Switch
        label="Stream the answer"
        labelPosition="left"
        checked={parameters.stream}
        onChange={(event) => set({ stream: event.currentTarget.checked })}
        styles={{ body: { justifyContent: "space-between" } }}
      />
    </>
  );
}

function LastAnswer({ turn, receiptAt }: Pick<RequestPanelProps, "turn" | "receiptAt">) {
  return (
    <>
      <h2 className={classes.panelTitle}>This request</h2>
      {turn ? (
        <Measured timings={turn.timings} receiptAt={receiptAt} />
      ) : (
        <p className={classes.quiet}>Timings appear with the first answer.</p>
      )}
      <hr className={classes.rule} />
    </>
  );
}

function Measured({ timings, receiptAt }: { timings: Timings; receiptAt: (requestId: string) => string }) {
  const { firstTokenMs, totalMs, status, requestId, tokens } = timings;
  const first = firstTokenMs !== null && totalMs ? (firstTokenMs / totalMs) * 100 : 0;
  return (
    <>
      {firstTokenMs === null ? null : (
        <>
          <div className={classes.bar} aria-hidden>
            <i style={{ width: `${first}%` }} />
            <b style={{ width: `${totalMs ? 100 - first : 0}%` }} />
          </div>
          <p className={classes.barLegend}>
            <span data-part="first">to first token</span>
            <span data-part="rest">streaming</span>
          </p>
        </>
      )}
      <Facts
        items={[
          ["Status", status ?? "–"],
          ["First token", ms(firstTokenMs)],
          ["Total", ms(totalMs)],
          ["Speed", speed(timings)],
          ["Tokens out", tokens || "–"],
          [
            "Request id",
            requestId ? (
              <span className={classes.requestId}>
                <LinkTo to={receiptAt(requestId)}>
                  <code>{requestId.slice(0, 16)}…</code>
                </LinkTo>
                <Copy text={requestId} label="Copy request id" />
              </span>
            ) : (
              "–"
            ),
          ],
        ]}
      />
    </>
  );
}
