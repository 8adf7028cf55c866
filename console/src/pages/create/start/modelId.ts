/** `hf:ORGANIZATION/NAME` of what somebody wrote or pasted: with or without `hf:`, or the address of its page. Null while it is
 * no such thing yet, so that no hub is asked for half a name. */
export function modelId(text: string): string | null {
  const name = text.trim().replace(/^(hf:|https?:\/\/[^/\s]+\/)/, "").replace(/\/tree\/([^/\s?#]+).*$/, "@$1").replace(/[?#].*$/, "").replace(/\/$/, "");
  return /^[\w.-]+\/[\w.-]+(@[\w./-]+)?$/.test(name) ? `hf:${name}` : null;
}
