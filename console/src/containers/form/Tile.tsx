import { Clock, X } from "lucide-react";

import type { InstanceType } from "@/api/queries";
import { dollars } from "@/components/Money";
import { gpus } from "@/containers/resources";

import classes from "./Form.module.css";

const MOST_PIPS = 8;
/** What counts in hundreds is never short, and a small type's number says how often it would fit, not how many there are. */
const PLENTY = 99;

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
        {type.gpu_model ? <strong>{gpus(type)}</strong> : gpus(type)} · {type.vcpu_millis / 1000} vCPU ·{" "}
        {Math.round((type.memory_bytes / 2 ** 30) * 100) / 100} GiB RAM
      </span>
      {isOpen ? (
        <span className={classes.tileFree}>
          <Room free={type.free} capacity={Math.max(type.capacity, type.free)} />
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

/** One square for each, or for an eighth of them. */
function Room({ free, capacity }: { free: number; capacity: number }) {
  if (free > PLENTY) return <>More than {PLENTY} would fit now</>;
  const pips = Math.min(capacity, MOST_PIPS);
  const filled = Math.ceil((free / capacity) * pips);
  return (
    <>
      <span className={classes.pips} aria-hidden>
        {Array.from({ length: pips }, (_, index) => (
          <i key={index} data-free={index < filled || undefined} />
        ))}
      </span>
      {free} of {capacity} free
    </>
  );
}

/** The tile says what is the case; what to do about it is to choose another. */
function firstSentence(text: string): string {
  return text.split(/(?<=\.)\s/)[0] ?? text;
}
