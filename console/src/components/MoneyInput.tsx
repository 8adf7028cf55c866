import { NumberInput, type NumberInputProps } from "@mantine/core";

interface MoneyInputProps extends Omit<NumberInputProps, "value" | "defaultValue" | "onChange" | "prefix"> {
  /** What it begins with. The field keeps what is typed ("7.0" on the way to "7.05"), and tells only the amount. */
  initialMicrousd?: number | null;
  change: (microusd: number | null) => void;
  /** Behind the point: 2 for amounts, more for prices of small things. */
  digits?: number;
}

/** An amount in dollars. */
export function MoneyInput({ initialMicrousd = null, change, digits = 2, ...rest }: MoneyInputProps) {
  const parts = 10 ** digits;
  return (
    <NumberInput
      prefix="$"
      decimalScale={digits}
      allowDecimal
      allowNegative={false}
      thousandSeparator=","
      hideControls
      defaultValue={initialMicrousd === null ? "" : initialMicrousd / 1e6}
      // Whole cents first: a fraction of a dollar times a million is not always a whole number.
      onChange={(value) => change(value === "" ? null : Math.round(Number(value) * parts) * (1e6 / parts))}
      {...rest}
    />
  );
}
