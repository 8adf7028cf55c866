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

const AMOUNTS = ["50", "100", "250", "other"];
const MICROUSD = 1_000_000;

/** Card or bank transfer. A way that the operator has not set up answers with its sentence, and nothing is paid. */
export function TopUpCard({ organizationId, billing }: { organizationId: string; billing: Billing }) {
  const [method, setMethod] = useState<"card" | "bank_transfer">("card");
  const [transfer, setTransfer] = useState<"local" | "international">("local");
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
        <SegmentedControl
          aria-label="How to pay"
          value={method}
          onChange={(value) => change(() => setMethod(value as typeof method))}
          data={[
            { value: "card", label: "Card" },
            { value: "bank_transfer", label: "Bank transfer" },
          ]}
        />
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
          {method === "bank_transfer" ? (
            <SegmentedControl
              fullWidth
              aria-label="Kind of transfer"
              value={transfer}
              onChange={(value) => change(() => setTransfer(value as typeof transfer))}
              data={[
                { value: "local", label: "Local" },
                { value: "international", label: "International" },
              ]}
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
