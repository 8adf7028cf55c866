import { Button, SegmentedControl, Stack } from "@mantine/core";
import { useState } from "react";

import { messageOf, Problem } from "@/api/problem";
import type { Billing } from "@/api/queries";
import { dollars } from "@/components/Money";
import { MoneyInput } from "@/components/MoneyInput";
import { Card, Facts } from "@/components/Page";
import { done } from "@/components/toasts";

import classes from "./Billing.module.css";
import { useTopUp } from "./queries";

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
          <Facts items={[["Balance after", dollars(billing.balance_microusd + microusd)]]} />
          {pay.isError ? (
            <p className={classes.refused} role="alert">
              {refusal(pay.error)}
            </p>
          ) : null}
          <Button type="submit" size="lg" fullWidth disabled={microusd === 0} loading={pay.isPending}>
            {method === "card" ? `Pay ${dollars(microusd)} by card` : `Get details for ${dollars(microusd)}`}
          </Button>
          <p className={classes.quiet}>
            {method === "card"
              ? "Opens the payment page. Credited once the payment is confirmed."
              : "Credited once the transfer arrived and was confirmed."}
          </p>
        </Stack>
      </form>
    </Card>
  );
}

function refusal(error: unknown): string {
  return (error instanceof Problem ? error.fields()["amount_microusd"] : undefined) ?? messageOf(error);
}
