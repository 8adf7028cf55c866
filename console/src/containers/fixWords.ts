import type { Container, InstanceType } from "@/api/queries";
import { fieldName } from "@/components/fieldNames";
import { dollars } from "@/components/Money";

/** What a fix changes, and what that costs: "a larger instance type, $0.005 → $0.01 per hour". */
export function fixInWords(fix: NonNullable<Container["fix"]>, types: InstanceType[]): string {
  if (fix.field !== "resources.instance_type") return `change the ${fieldName(fix.field).toLowerCase().replace(/, s$/, "")}`;
  const [before, after] = [fix.from, fix.to].map((name) => types.find((one) => one.name === name)?.price_per_hour_microusd);
  if (before === undefined || after === undefined) return "a larger instance type";
  return `a larger instance type, ${dollars(before)} → ${dollars(after)} per hour`;
}
