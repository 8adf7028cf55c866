import { Button } from "@mantine/core";
import { ChevronDown, ChevronUp, CircleAlert } from "lucide-react";
import { useState } from "react";

import { MemoryLegend } from "@/components/MemoryBar";
import { size } from "@/components/sizes";
import type { Draft } from "@/containers/form/draft";

import { FitRow } from "./FitRow";
import { footnote } from "./footnote";
import { whyNowhere } from "./nowhere";
import { canBeChosen, chosenFit, isOffered, type ModelPlan, type Origin } from "./origin";
import classes from "./Start.module.css";

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
    ...(memory.context_bytes ? [{ part: "context" as const, words: `context ${size(memory.context_bytes)}` }] : []),
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
        {footnote(shown, plan.context_bytes_per_request)}
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
