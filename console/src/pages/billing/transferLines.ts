/** The account to pay to, as the operator wrote it down. Pure. */

const NAME = "(?:IBAN|BIC|SWIFT)(?: code)?";
/** Anything up to a colon, but not the "https" of an address; or names that every bank has, as "BIC/SWIFT". */
const LABELS = new RegExp(String.raw`^(?:[^:]{1,30}:(?!//)|${NAME}(?:\s*[/(]\s*${NAME}\)?)?(?=\s))\s*`, "i");

/** Each line, and what a bank's form takes of it: "XX00 1234" of "IBAN XX00 1234". */
export function instructionLines(text: string): { line: string; value: string }[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .map((line) => ({ line, value: line.replace(LABELS, "") || line }));
}
