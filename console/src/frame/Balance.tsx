import { useQuery } from "@tanstack/react-query";
import { Clock } from "lucide-react";

import { paths } from "@/addresses/paths";
import { useProject } from "@/addresses/useProject";
import { billingQuery } from "@/api/queries";
import { LinkTo } from "@/components/LinkTo";
import { dollars, Money } from "@/components/Money";
import { runOut } from "@/components/runOut";
import { wholeTime } from "@/components/times";
import { useNow } from "@/components/useNow";

import classes from "./Frame.module.css";

/** Balance, rate and how long it lasts: in view wherever one is. */
export function Balance() {
  const { project, isAdmin } = useProject();
  const { data: billing } = useQuery(billingQuery(project.organization_id));
  const now = useNow(30_000);
  if (!billing) return null;
  const end = runOut(billing, now);
  return (
    <div className={classes.balance} role="group" aria-label="Credit" data-figures>
      <LinkTo to={paths.section(project.id, "billing")} aria-label={`${dollars(billing.balance_microusd)}, billing`}>
        <strong>
          <Money microusd={billing.balance_microusd} />
        </strong>
      </LinkTo>
      {billing.burn_per_hour_microusd > 0 ? (
        <span className={classes.rate}>
          <Money microusd={billing.burn_per_hour_microusd} per="h" />
        </span>
      ) : null}
      {end ? (
        <span className={classes.runsOut} data-tone={end.tone} title={billing.runs_out_at ? wholeTime(billing.runs_out_at) : undefined}>
          <Clock size={14} strokeWidth={1.5} aria-hidden />
          {end.sentence}
        </span>
      ) : null}
      {isAdmin ? (
        <LinkTo to={paths.section(project.id, "billing")} className={classes.topUp}>
          Top up
        </LinkTo>
      ) : null}
    </div>
  );
}
