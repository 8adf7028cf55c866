import { Check, Info, TriangleAlert } from "lucide-react";

import type { Container } from "@/api/queries";
import { isStopped } from "@/components/state";
import { dateAndTime } from "@/components/times";
import { useNow } from "@/components/useNow";
import { sentences } from "@/containers/metrics/decisions";
import type { Autoscaling } from "@/containers/metrics/queries";

import classes from "./Autoscaling.module.css";

/** Kept from what demand needs: everything but a limit that a person wanted, or one that only takes time. */
const HELD_BACK = new Set(["max_replicas", "credit", "capacity", "health_check", "silent_gateway", "no_samples"]);

/** Why it has as many replicas as it has, and not more: the newest decision, which holds until the next one. */
export function Why({ container, autoscaling }: { container: Container; autoscaling: Autoscaling }) {
  const now = useNow(30_000);
  const [newest] = autoscaling.items;
  const { ready, desired, coming } = autoscaling.replicas;
  if (!autoscaling.policy) {
    return <Sentence title="Fixed, one replica">Give it a maximum below to let it follow the requests in flight.</Sentence>;
  }
  if (isStopped(container.state)) {
    return <Sentence title="Not running">Nothing is decided while it is stopped. The policy below holds from its next start.</Sentence>;
  }
  const number = `${ready} of ${desired} ready${coming > 0 ? `, ${coming} on the way` : ""}`;
  if (!newest) return <Sentence title={number}>Nothing was decided yet.</Sentence>;
  const isHeldBack = HELD_BACK.has(newest.limited_by ?? "");
  return (
    <Sentence title={number} warns={isHeldBack} isDecided>
      {`Decided at ${dateAndTime(newest.at, now)}: ${sentences(newest.reason).join(". ")}.`}
    </Sentence>
  );
}

interface SentenceProps {
  title: string;
  children: string;
  isDecided?: boolean;
  warns?: boolean;
}

function Sentence({ title, children, isDecided = false, warns = false }: SentenceProps) {
  // A tick is for what was looked at.
  const Icon = warns ? TriangleAlert : isDecided ? Check : Info;
  return (
    <section className={classes.why} data-warns={warns || undefined} data-checked={isDecided || undefined} aria-label="Why this many">
      <Icon size={16} strokeWidth={1.5} aria-hidden />
      <p role="status">
        <strong>{title}.</strong> {children}
      </p>
    </section>
  );
}
