import { Button } from "@mantine/core";
import { ChevronDown, ChevronUp, CircleAlert } from "lucide-react";
import { useState } from "react";

import { MemoryLegend } from "@/components/MemoryBar";
import { size } from "@/components/sizes";
import type { Draft } from "@/containers/form/draft";

import { FitRow } from "./FitRow";
import { foldingOf, whyNothingStarts } from "./folding";
import { footnote } from "./footnote";
import { whyNowhere } from "./nowhere";
import { chosenFit, type ModelPlan, type Origin } from "./origin";
import classes from "./Start.module.css";

interface FitsProps {
  plan: ModelPlan;
  origin: Origin;
  change: (changes: Partial<Origin>) => void;
  infrastructure: Draft["infrastructure"];
  isAsking: boolean;
  error: string | undefined;
}

/** Every instance type with the model in it: what can be chosen first, and cheap ones first of those. What no machine offers now is
 * folded away. */
export function Fits({ plan, origin, change, infrastructure, isAsking, error }: FitsProps) {
  const { memory } = plan;
  /** The type for which somebody took a shorter context: their focus goes from that button to its radio. */
  const [shortened, setShortened] = useState<string | null>(null);
  const [unfolded, setUnfolded] = useState(false);
  if (!memory) return null;
  const { shown, folded, pointless } = foldingOf(plan, infrastructure);
  const chosen = chosenFit(plan, origin, infrastructure);
  const why = chosen ? null : whyNowhere(plan, infrastructure);
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
        {[...shown, ...(unfolded ? folded : [])].map((fit) => (
          <FitRow
            key={fit.instance_type}
            fit={fit}
            whyNothingStarts={whyNothingStarts(plan)}
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
      {folded.length > 0 ? (
        <Button
          variant="subtle"
          color="var(--m-ink-2)"
          size="xs"
          className={classes.foldFits}
          aria-expanded={unfolded}
          rightSection={unfolded ? <ChevronUp size={14} strokeWidth={1.5} /> : <ChevronDown size={14} strokeWidth={1.5} />}
          onClick={() => setUnfolded(!unfolded)}
        >
          {unfolded ? "Hide" : "Show"} {folded.length === 1 ? "1 type" : `${folded.length} types`} that no machine offers now
        </Button>
      ) : null}
      {why === null ? null : <NothingToChoose sentence={why} isMistake={error !== undefined} />}
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
