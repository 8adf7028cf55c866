import { NumberInput, type NumberInputProps } from "@mantine/core";

const MICROUSD_A_CENT = 10_000;

interface MoneyInputProps extends Omit<NumberInputProps, "value" | "onChange" | "prefix"> {
  microusd: number | null;
  change: (microusd: number | null) => void;
}

/** An amount in dollars and cents. */
export function MoneyInput({ microusd, change, ...rest }: MoneyInputProps) {
  return (
    <NumberInput
      prefix="$"
      decimalScale={2}
      allowDecimal
      allowNegative={false}
      thousandSeparator=","
      hideControls
      value={microusd === null ? "" : microusd / 1e6}
      // Whole cents first: a fraction of a dollar times a million is not always a whole number.
      onChange={(value) => change(typeof value === "number" ? Math.round(value * 100) * MICROUSD_A_CENT : null)}
      {...rest}
    />
  );
}
