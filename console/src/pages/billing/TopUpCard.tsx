import { Button, SegmentedControl, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import type { Billing } from "@/api/queries";
import { dollars } from "@/components/Money";
import { MoneyInput } from "@/components/MoneyInput";
import { Card, Facts } from "@/components/Page";
import { dayAndTime } from "@/components/times";
import { done } from "@/components/toasts";
import { useNow } from "@/components/useNow";

import classes from "./Billing.module.css";
import { topUpsQuery, useTopUp } from "./queries";

type Way = Billing["payment_methods"][number];
const METHODS: { value: "card" | "bank_transfer"; label: string; by: Way[] }[] = [
  { value: "card", label: "Card", by: ["card"] },
  { value: "bank_transfer", label: "Bank transfer", by: ["bank_transfer_local", "bank_transfer_international"] },
];
const TRANSFERS: { value: "local" | "international"; label: string }[] = [
  { value: "local", label: "Local" },
  { value: "international", label: "International" },
];
const AMOUNTS = ["50", "100", "250", "other"];
const MICROUSD = 1_000_000;
const HOUR_MS = 3_600_000;

/** By card or bank transfer, as far as the operator has set that up; else whom to ask. */
export function TopUpCard({ organizationId, billing }: { organizationId: string; billing: Billing }) {
  if (billing.payment_methods.length > 0) return <PayForm organizationId={organizationId} billing={billing} />;
  return (
    <Card title="Top up">
      <p className={classes.quiet}>
        No way of paying is set up here. Ask {billing.payment_contact} for credit.
      </p>
    </Card>
  );
}

function PayForm({ organizationId, billing }: { organizationId: string; billing: Billing }) {
  const methods = METHODS.filter((one) => one.by.some((way) => billing.payment_methods.includes(way)));
  const transfers = TRANSFERS.filter((one) => billing.payment_methods.includes(`bank_transfer_${one.value}`));
  const [method, setMethod] = useState(methods[0]?.value ?? "card");
  const [transfer, setTransfer] = useState(transfers[0]?.value ?? "local");
  const [chosen, setChosen] = useState("100");
  const [other, setOther] = useState<number | null>(null);
  const pay = useTopUp(organizationId);
  const now = useNow(60_000);
  const { data: topUps = [] } = useQuery(topUpsQuery(organizationId));
  const awaited = topUps.filter((one) => one.state === "pending").reduce((sum, one) => sum + one.amount_microusd, 0);
  const microusd = chosen === "other" ? (other ?? 0) : Number(chosen) * MICROUSD;
  const change = (set: () => void) => {
    pay.reset();
    set();
  };
  const submit = (event: React.FormEvent) => {
    event.preventDefault();
    pay.mutate(
      { method, amount_microusd: microusd, transfer },
      { onSuccess: (made) => made.reference && done(`Write ${made.reference} on the transfer.`) },
    );
  };
  return (
    <Card
      title="Top up"
      action={
        methods.length > 1 ? (
          <SegmentedControl
            aria-label="How to pay"
            value={method}
            onChange={(value) => change(() => setMethod(value as typeof method))}
            data={methods.map(({ value, label }) => ({ value, label }))}
          />
        ) : (
          <span className={classes.quiet}>{methods[0]?.label}</span>
        )
      }
    >
      <form onSubmit={submit}>
        <Stack gap={16}>
          <SegmentedControl
            fullWidth
            aria-label="Amount"
            value={chosen}
            onChange={(value) => change(() => setChosen(value))}
            data={AMOUNTS.map((value) => ({ value, label: value === "other" ? "Other" : `$${value}` }))}
          />
          {chosen === "other" ? (
            <MoneyInput
              label="Amount in USD"
              description="From $5 to $10,000."
              initialMicrousd={other}
              change={(value) => change(() => setOther(value))}
            />
          ) : null}
          {method === "bank_transfer" && transfers.length > 1 ? (
            <SegmentedControl
              fullWidth
              aria-label="Kind of transfer"
              value={transfer}
              onChange={(value) => change(() => setTransfer(value as typeof transfer))}
              data={TRANSFERS}
            />
          ) : null}
          <Facts items={outcome(billing, microusd, awaited, now)} />
          {pay.isError ? (
            <p className={classes.refused} role="alert">
              {refusal(pay.error)}
            </p>
          ) : null}
          <Button type="submit" size="lg" fullWidth disabled={microusd === 0} loading={pay.isPending}>
            {method === "card" ? `Pay ${dollars(microusd)} by card` : `Get transfer details for ${dollars(microusd)}`}
          </Button>
          <p className={classes.quiet}>
            {method === "card"
              ? "Opens the payment page. Credited once the payment is confirmed."
              : "Credited when the operator confirms that your transfer has arrived."}
          </p>
        </Stack>
      </form>
    </Card>
  );
}

/** What there is then and how long it lasts; what was announced before comes on top of it. */
function outcome(billing: Billing, microusd: number, awaitedMicrousd: number, now: Date): [string, string][] {
  const facts: [string, string][] = [["Balance after", dollars(billing.balance_microusd + microusd)]];
  if (awaitedMicrousd > 0) facts.push(["Also awaited", dollars(awaitedMicrousd)]);
  const { runs_out_at: end, burn_per_hour_microusd: burn } = billing;
  if (end && burn > 0) facts.push(["Lasts until", dayAndTime(new Date(new Date(end).getTime() + (microusd / burn) * HOUR_MS), now)]);
  return facts;
}

function refusal(error: unknown): string {
  return (error instanceof Problem ? error.fields()["amount_microusd"] : undefined) ?? messageOf(error);
}
