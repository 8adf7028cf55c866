import { NumberInput, type NumberInputProps } from "@mantine/core";

const MICROUSD_A_CENT = 10_000;

interface MoneyInputProps extends Omit<NumberInputProps, "value" | "defaultValue" | "onChange" | "prefix"> {
  /** What it begins with. The field keeps what is typed ("7.0" on the way to "7.05"), and tells only the amount. */
  initialMicrousd?: number | null;
  change: (microusd: number | null) => void;
}

/** An amount in dollars and cents. */
export function MoneyInput({ initialMicrousd = null, change, ...rest }: MoneyInputProps) {
  return (
    <NumberInput
      prefix="$"
      decimalScale={2}
      allowDecimal
      allowNegative={false}
      thousandSeparator=","
      hideControls
      defaultValue={initialMicrousd === null ? "" : initialMicrousd / 1e6}
      // Whole cents first: a fraction of a dollar times a million is not always a whole number.
      onChange={(value) => change(value === "" ? null : Math.round(Number(value) * 100) * MICROUSD_A_CENT)}
      {...rest}
    />
  );
}
