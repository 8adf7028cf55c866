/** What happens before the first answer, and how long it takes where starts were measured here. Nothing is guessed. */
import { size } from "@/components/sizes";
import { roughly } from "@/components/times";

import type { Fit, ModelPlan } from "./start/origin";

export interface Phase {
  name: "image" | "weights" | "load";
  label: string;
  bytes: number | null;
  seconds: number | null;
}

export interface FirstAnswer {
  phases: Phase[];
  /** "about 3 min 40 s" where all of it was measured, else what there is to fetch. */
  title: string;
  /** Drawn to scale; empty where that would be half of it. */
  shares: { name: Phase["name"]; share: number }[];
  note: string;
}

export function firstAnswer(plan: ModelPlan, fit: Fit, imageBytes: number | null): FirstAnswer {
  const start = fit.start ?? null;
  const weightBytes = plan.model?.download_bytes ?? null;
  const rate = start?.image_bytes_per_s ?? null;
  const phases: Phase[] = [
    {
      name: "image",
      label: "Pull the image",
      bytes: imageBytes,
      seconds: imageBytes !== null && rate ? Math.max(1, Math.round(imageBytes / rate)) : null,
    },
    { name: "weights", label: "Download weights", bytes: weightBytes, seconds: start?.download_s ?? null },
    { name: "load", label: "Load and compile", bytes: null, seconds: start?.load_s ?? null },
  ];
  const known = phases.filter((one) => one.seconds !== null);
  const total = known.reduce((sum, one) => sum + (one.seconds ?? 0), 0);
  const isKnown = known.length === phases.length;
  return {
    phases,
    title: isKnown ? `about ${roughly(total)}` : toFetch(imageBytes, weightBytes ?? 0),
    shares: isKnown ? phases.map(({ name, seconds }) => ({ name, share: (seconds ?? 0) / total })) : sharesOfBytes(phases),
    note: note(plan, start, known.length),
  };
}

function toFetch(imageBytes: number | null, weightBytes: number): string {
  return imageBytes ? `${size(imageBytes + weightBytes)} to fetch` : `${size(weightBytes)} and the image`;
}

function sharesOfBytes(phases: Phase[]): FirstAnswer["shares"] {
  const fetched = phases.filter((one) => one.name !== "load");
  if (fetched.some((one) => !one.bytes)) return [];
  const total = fetched.reduce((sum, one) => sum + (one.bytes ?? 0), 0);
  return fetched.map(({ name, bytes }) => ({ name, share: (bytes ?? 0) / total }));
}

function note(plan: ModelPlan, start: Fit["start"] | null, known: number): string {
  const sentences = ["Not billed."];
  if (known === 0) sentences.push("Nothing like it has started here yet, so nobody knows how long it takes. The container's page shows each step as it happens.");
  else if (start?.own) sentences.push("Measured in your earlier starts; shorter if the machine has the image.");
  else sentences.push("Measured in starts of other organizations here; shorter if the machine has the image.");
  if (plan.cache) {
    const again = start?.again_s ? ` and take about ${roughly(start.again_s)}` : "";
    sentences.push(`Later starts find image and weights on the machine${again}.`);
  }
  return sentences.join(" ");
}
