/** The account to pay to, as the operator wrote it down. Pure. */

const LABELS = /^(?:[^:]{1,30}:|(?:IBAN|BIC|SWIFT)\b)\s*/i;

/** Each line, and what a bank's form takes of it: "XX00 1234" of "IBAN XX00 1234". */
export function instructionLines(text: string): { line: string; value: string }[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line) => ({ line, value: line.replace(LABELS, "") || line }));
}
