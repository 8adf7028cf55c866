import { UnstyledButton } from "@mantine/core";
import { Check, Clock, Minus, X } from "lucide-react";
import { useEffect, useRef } from "react";

import { MemoryBar } from "@/components/MemoryBar";
import { dollars } from "@/components/Money";
import { size } from "@/components/sizes";

import { canBeChosen, type Fit } from "./origin";
import classes from "./Start.module.css";

interface FitRowProps {
  fit: Fit;
  /** Where the model fits and nothing could start now. */
  whyNothingStarts: string;
  checked: boolean;
  choose: () => void;
  shorten: (tokens: number) => void;
  /** As soon as it can be chosen. */
  takesFocus: boolean;
}

/** One instance type: its memory with the model in it, what that means, and the price. Only what fits and is free has a radio. */
export function FitRow({ fit, whyNothingStarts, checked, choose, shorten, takesFocus }: FitRowProps) {
  const isOpen = canBeChosen(fit);
  const radio = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (takesFocus && isOpen) radio.current?.focus();
  }, [takesFocus, isOpen]);
  const words = fit.fits ? `${size(fit.free_bytes ?? 0)} left · ${room(fit)}` : short(fit);
  const price = (
    <span className={classes.fitPrice}>
      {dollars(fit.price_per_hour_microusd)}
      <small>/h</small>
    </span>
  );
  const facts = (
    <>
      <span className={classes.fitName}>{fit.instance_type}</span>
      <span className={classes.fitSize}>{memoryOf(fit)}</span>
      <span className={classes.fitBar}>
        {fit.memory && fit.total_bytes ? (
          <MemoryBar
            parts={{
              weights: fit.memory.weights_bytes,
              server: fit.memory.server_bytes,
              context: fit.memory.context_bytes,
              total: fit.total_bytes,
              usable: fit.usable_bytes ?? fit.total_bytes,
            }}
          />
        ) : null}
      </span>
    </>
  );
  if (isOpen) {
    return (
      <label className={classes.fit} data-checked={checked || undefined} data-fits>
        <input
          ref={radio}
          type="radio"
          name="instance-type"
          checked={checked}
          onChange={choose}
          aria-label={`${fit.instance_type}, ${dollars(fit.price_per_hour_microusd)} an hour, ${words}`}
        />
        {facts}
        <Check size={16} strokeWidth={2} className={classes.fitMark} data-tone="ok" aria-hidden />
        <span className={classes.fitWords}>{words}</span>
        {price}
      </label>
    );
  }
  const nothingStarts = fit.capacity === 0;
  const tone = nothingStarts ? "none" : fit.fits ? "warn" : "bad";
  const Mark = { none: Minus, warn: Clock, bad: X }[tone];
  return (
    <div className={classes.fit} role="group" aria-label={`${fit.instance_type}, cannot be chosen`}>
      <span />
      {facts}
      <Mark size={16} strokeWidth={tone === "bad" ? 2 : 1.5} className={classes.fitMark} data-tone={tone} aria-hidden />
      <span className={classes.fitWords} data-tone={tone === "warn" ? "warn" : undefined} title={fit.reason ?? undefined}>
        {nothingStarts && fit.fits ? whyNothingStarts : words}
        {fit.longest_context_tokens && !nothingStarts ? (
          <>
            {"; "}
            <UnstyledButton className={classes.shorten} onClick={() => shorten(fit.longest_context_tokens ?? 0)}>
              fits at {fit.longest_context_tokens.toLocaleString("en-US")} tokens
            </UnstyledButton>
          </>
        ) : null}
      </span>
      {price}
    </div>
  );
}

/** "48.3 GB", "2 × 81.9 GB". */
function memoryOf({ total_bytes: total, gpu_count: gpus }: Fit): string {
  return total === null ? "?" : `${gpus > 1 ? `${gpus} × ` : ""}${size(total)}`;
}

function room({ free, capacity }: Fit): string {
  if (free > 0) return `${free.toLocaleString("en-US")} of ${capacity.toLocaleString("en-US")} free now`;
  return `all ${capacity.toLocaleString("en-US")} in use`;
}

/** "9.1 GB short; Tesla T4 has no BF16": the API's sentence, as short as a row needs it. */
function short({ free_bytes: left, gpu_count: gpus, obstacle, reason }: Fit): string {
  const missing = left !== null && left < 0 ? `${size(-left)} short${gpus > 1 ? " on each GPU" : ""}` : null;
  return [missing, obstacle].filter(Boolean).join("; ") || reason || "Does not fit";
}
