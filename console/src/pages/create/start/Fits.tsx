import { Button } from "@mantine/core";
import { ChevronDown, ChevronUp, CircleAlert } from "lucide-react";
import { useState } from "react";

import { MemoryLegend } from "@/components/MemoryBar";
import { size } from "@/components/sizes";
import type { Draft } from "@/containers/form/draft";

import { FitRow } from "./FitRow";
import { whyNowhere } from "./nowhere";
import { canBeChosen, chosenFit, type Fit, isOffered, type ModelPlan, type Origin } from "./origin";
import classes from "./Start.module.css";

type Memory = NonNullable<ModelPlan["memory"]>;
/** Of a GB: as exactly as sizes are shown. */
const TENTH = 1e8;

interface FitsProps {
  plan: ModelPlan;
  origin: Origin;
  change: (changes: Partial<Origin>) => void;
  infrastructure: Draft["infrastructure"];
  isAsking: boolean;
  error: string | undefined;
}

/** Every instance type with the model in it: what can be chosen first, and cheap ones first of those. What no machine here has is
 * folded away. */
export function Fits({ plan, origin, change, infrastructure, isAsking, error }: FitsProps) {
  const { memory } = plan;
  /** The type for which somebody took a shorter context: their focus goes from that button to its radio. */
  const [shortened, setShortened] = useState<string | null>(null);
  const [unfolded, setUnfolded] = useState(false);
  if (!memory) return null;
  const offered = plan.instance_types.filter((one) => isOffered(one, infrastructure));
  // The server cannot use them, whatever they have.
  const pointless = offered.filter((one) => one.gpu_model === null && one.usable_bytes === null);
  const weighed = offered.filter((one) => !pointless.includes(one));
  const here = weighed.filter((one) => one.capacity > 0);
  const nobodys = here.length > 0 ? weighed.filter((one) => one.capacity === 0) : [];
  const shown = here.length > 0 ? [...here.filter(canBeChosen), ...here.filter((one) => !canBeChosen(one))] : weighed;
  const chosen = chosenFit(plan, origin, infrastructure);
  const parts = [
    { part: "weights" as const, words: `weights ${size(memory.weights_bytes)}` },
    { part: "server" as const, words: `server ${size(memory.server_bytes)}` },
    ...(memory.context_bytes ? [{ part: "context" as const, words: `KV cache ${size(contextPart(memory))}` }] : []),
    { part: "free" as const, words: "free" },
    { part: "reserved" as const, words: "reserved" },
  ];
  return (
    <div className={classes.fits} aria-busy={isAsking}>
      <div className={classes.fitsHead}>
        <h3>Each replica needs {size(memory.total_bytes)}</h3>
        <MemoryLegend parts={parts} />
      </div>
      <div className={classes.fitRows} role="radiogroup" aria-label="Instance type">
        {[...shown, ...(unfolded ? nobodys : [])].map((fit) => (
          <FitRow
            key={fit.instance_type}
            fit={fit}
            checked={fit === chosen}
            choose={() => change({ instanceType: fit.instance_type })}
            takesFocus={shortened === fit.instance_type}
            shorten={(context) => {
              setShortened(fit.instance_type);
              change({ context, instanceType: fit.instance_type });
            }}
          />
        ))}
      </div>
      {nobodys.length > 0 ? (
        <Button
          variant="subtle"
          color="var(--m-ink-2)"
          size="xs"
          className={classes.foldFits}
          aria-expanded={unfolded}
          rightSection={unfolded ? <ChevronUp size={14} strokeWidth={1.5} /> : <ChevronDown size={14} strokeWidth={1.5} />}
          onClick={() => setUnfolded(!unfolded)}
        >
          {unfolded ? "Hide" : "Show"} {nobodys.length === 1 ? "1 type" : `${nobodys.length} types`} without a machine here
        </Button>
      ) : null}
      {chosen ? null : <NothingToChoose sentence={whyNowhere(plan, infrastructure)} isMistake={error !== undefined} />}
      <p className={classes.footnote}>
        {reservedWords(shown)}
        {plan.context_bytes_per_request ? `A full-length request takes ${amountWords(plan.context_bytes_per_request)} of KV cache. ` : ""}
        {pointless[0]?.obstacle ? `Types without a GPU are left out: ${pointless[0].obstacle}.` : ""}
      </p>
    </div>
  );
}

function NothingToChoose({ sentence, isMistake }: { sentence: string; isMistake: boolean }) {
  return (
    <p className={classes.nothing} data-mistake={isMistake || undefined} role="status" tabIndex={-1}>
      <CircleAlert size={16} strokeWidth={1.5} aria-hidden /> {sentence}
    </p>
  );
}

/** Rounded so that the parts add up to the sum above them. */
function contextPart({ total_bytes: total, weights_bytes: weights, server_bytes: server, context_bytes: context }: Memory): number {
  const [all, ...others] = [total, weights, server].map((bytes) => Math.round(bytes / TENTH) * TENTH);
  const rest = others.reduce((left, part) => left - part, all ?? 0);
  return Math.abs(rest - context) < 2 * TENTH ? rest : context;
}

/** "Reserved: 7 % of a GPU's memory and 10 % of a machine's, which a server cannot use." */
function reservedWords(fits: Fit[]): string {
  const shareOf = (isGpu: boolean) => {
    const fit = fits.find((one) => (one.gpu_model !== null) === isGpu && one.total_bytes && one.usable_bytes);
    return fit?.total_bytes && fit.usable_bytes ? Math.round((1 - fit.usable_bytes / fit.total_bytes) * 100) : null;
  };
  const [gpu, machine] = [shareOf(true), shareOf(false)];
  const parts = [
    ...(gpu === null ? [] : [`${gpu} % of a GPU's memory`]),
    ...(machine === null ? [] : [`${machine} % of the RAM without one`]),
  ];
  return parts.length > 0 ? `Reserved: ${parts.join(", ")}; a server cannot use it. ` : "";
}

function amountWords(bytes: number): string {
  return bytes >= 1e8 ? `${(bytes / 1e9).toFixed(2)} GB` : size(bytes);
}
