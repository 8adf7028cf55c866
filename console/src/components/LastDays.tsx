import { SegmentedControl } from "@mantine/core";

const CHOICES = [7, 30, 90];

export const USUAL_DAYS = 30;

/** How many days a page shows. */
export function LastDays({ days, change }: { days: number; change: (days: number) => void }) {
  return (
    <SegmentedControl
      aria-label="How many days"
      value={String(days)}
      onChange={(value) => change(Number(value))}
      data={CHOICES.map((count) => ({ value: String(count), label: `${count} days` }))}
    />
  );
}
