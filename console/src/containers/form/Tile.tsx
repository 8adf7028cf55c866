import { Clock, X } from "lucide-react";

import type { InstanceType } from "@/api/queries";
import { dollars } from "@/components/Money";
import { gpuName } from "@/containers/resources";

import classes from "./Form.module.css";

const MOST_PIPS = 8;

interface TileProps {
  type: InstanceType;
  /** Why what is to run does not fit on it, as a sentence. */
  obstacle?: string | undefined;
  checked: boolean;
  choose: () => void;
}

/** A radio card. What cannot be had now, or does not fit, is shown with its reason and cannot be chosen. */
export function Tile({ type, obstacle, checked, choose }: TileProps) {
  const isOpen = type.available && !obstacle;
  return (
    <label className={classes.tile} data-checked={checked || undefined} data-unavailable={!isOpen || undefined}>
      {isOpen ? (
        <input type="radio" name="instance-type" checked={checked} onChange={choose} aria-label={type.name} />
      ) : (
        <span />
      )}
      <span className={classes.tileName}>{type.name}</span>
      <span className={classes.tilePrice}>
        {dollars(type.price_per_hour_microusd)}
        <small>/h</small>
      </span>
      <span className={classes.tileFacts}>
        {type.gpu_model ? <strong>{gpuLine(type)}</strong> : "No GPU"} · {type.vcpu_millis / 1000} vCPU ·{" "}
        {Math.round((type.memory_bytes / 2 ** 30) * 100) / 100} GiB
      </span>
      {isOpen ? (
        <span className={classes.tileFree}>
          <span className={classes.pips} aria-hidden>
            {Array.from({ length: Math.min(type.free, MOST_PIPS) }, (_, index) => (
              <i key={index} />
            ))}
          </span>
          {type.free.toLocaleString("en-US")} free
        </span>
      ) : (
        <span className={classes.tileReason}>
          {obstacle ? <X size={14} strokeWidth={1.5} aria-hidden /> : <Clock size={14} strokeWidth={1.5} aria-hidden />}
          {obstacle ?? firstSentence(type.unavailable_reason ?? "Not available now.")}
        </span>
      )}
    </label>
  );
}

function gpuLine(type: InstanceType): string {
  return `${type.gpu_count > 1 ? `${type.gpu_count} × ` : ""}${gpuName(type.gpu_model ?? "")}`;
}

/** The tile says what is the case; what to do about it is to choose another. */
function firstSentence(text: string): string {
  return text.split(/(?<=\.)\s/)[0] ?? text;
}
