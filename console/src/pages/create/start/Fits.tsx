import { CircleAlert } from "lucide-react";
import { useState } from "react";

import { MemoryLegend } from "@/components/MemoryBar";
import { size } from "@/components/sizes";
import type { Draft } from "@/containers/form/draft";

import { FitRow } from "./FitRow";
import { chosenFit, type Fit, isOffered, type ModelPlan, type Origin } from "./origin";
import classes from "./Start.module.css";

interface FitsProps {
  plan: ModelPlan;
  origin: Origin;
  change: (changes: Partial<Origin>) => void;
  infrastructure: Draft["infrastructure"];
  isAsking: boolean;
  error: string | undefined;
}

/** Every instance type with the model in it, cheap ones first. */
export function Fits({ plan, origin, change, infrastructure, isAsking, error }: FitsProps) {
  const { memory } = plan;
  /** The type for which somebody took a shorter context: their focus goes from that button to its radio. */
  const [shortened, setShortened] = useState<string | null>(null);
  if (!memory) return null;
  const offered = plan.instance_types.filter((one) => isOffered(one, infrastructure));
  // The server cannot use them, whatever they have.
  const pointless = offered.filter((one) => one.gpu_model === null && one.usable_bytes === null);
  const shown = offered.filter((one) => !pointless.includes(one));
  const chosen = chosenFit(plan, origin, infrastructure);
  const parts = [
    { part: "weights" as const, words: `weights ${amount(memory.weights_bytes)}` },
    { part: "server" as const, words: `server ${amount(memory.server_bytes)}` },
    ...(memory.context_bytes ? [{ part: "context" as const, words: `KV cache ${amount(memory.context_bytes)}` }] : []),
    { part: "free" as const, words: "free" },
  ];
  return (
    <div className={classes.fits} aria-busy={isAsking}>
      <div className={classes.fitsHead}>
        <h3>Each replica needs {size(memory.total_bytes)}</h3>
        <MemoryLegend parts={parts} />
      </div>
      <div className={classes.fitRows} role="radiogroup" aria-label="Instance type">
        {shown.map((fit) => (
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
      {chosen ? null : <NothingToChoose sentence={taken(shown) ?? plan.message} isMistake={error !== undefined} />}
      <p className={classes.footnote}>
        {plan.context_bytes_per_request ? `A full-length request takes ${amountWords(plan.context_bytes_per_request)} of KV cache. ` : ""}
        {pointless[0]?.obstacle ? `Types without a GPU are left out: ${pointless[0].obstacle}.` : ""}
      </p>
    </div>
  );
}

/** Where it fits but cannot be had. */
function taken(fits: Fit[]): string | null {
  const names = fits.filter((one) => one.fits).map((one) => one.instance_type);
  if (names.length === 0) return null;
  return `It fits on ${names.join(", ")}, but none of these is free now. A shorter context, or fewer requests at once, may fit on another.`;
}

function NothingToChoose({ sentence, isMistake }: { sentence: string; isMistake: boolean }) {
  return (
    <p className={classes.nothing} data-strong={isMistake || undefined} role="status">
      <CircleAlert size={16} strokeWidth={1.5} aria-hidden /> {sentence}
    </p>
  );
}

/** The legend says GB once, in its title. */
function amount(bytes: number): string {
  return bytes >= 1e8 ? (bytes / 1e9).toFixed(1) : size(bytes);
}

function amountWords(bytes: number): string {
  return bytes >= 1e8 ? `${(bytes / 1e9).toFixed(2)} GB` : size(bytes);
}
