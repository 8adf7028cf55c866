/** What a terminal would do with a line, as far as it is colour; everything else of it is dropped. */
export interface AnsiPart {
  text: string;
  color?: number;
  bold?: boolean;
  dim?: boolean;
  /** Part of what somebody looks for. */
  marked?: boolean;
}

// CSI sequences, OSC strings (titles, links) and the two-character escapes.
 
const ESCAPE = /\x1b(?:\[([0-9;:]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])/g;
 
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

export function parseAnsi(line: string): AnsiPart[] {
  const parts: AnsiPart[] = [];
  let style: Omit<AnsiPart, "text"> = {};
  let end = 0;
  const push = (text: string) => {
    const clean = text.replace(CONTROL, "");
    if (clean) parts.push({ text: clean, ...style });
  };
  for (const match of line.matchAll(ESCAPE)) {
    push(line.slice(end, match.index));
    end = match.index + match[0].length;
    if (match[2] === "m") style = applied(style, match[1] ?? "");
  }
  push(line.slice(end));
  return parts;
}

function applied(style: Omit<AnsiPart, "text">, codes: string): Omit<AnsiPart, "text"> {
  let next = { ...style };
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at] ?? 0;
    if (code === 0) next = {};
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 22) next = { ...next, bold: false, dim: false };
    else if (code >= 30 && code <= 37) next.color = code - 30;
    else if (code >= 90 && code <= 97) next.color = code - 90;
    else if (code === 39) delete next.color;
    // 256 and true colours: their numbers must not be read as codes of their own.
    else if (code === 38 || code === 48) at += numbers[at + 1] === 2 ? 4 : 2;
  }
  return next;
}

/** The same parts, cut where what is looked for begins and ends, which may be in another colour. */
export function marked(parts: AnsiPart[], wanted: string): AnsiPart[] {
  const places = placesOf(parts.map((one) => one.text).join(""), wanted);
  if (places.length === 0) return parts;
  const cut: AnsiPart[] = [];
  let at = 0;
  for (const part of parts) {
    let from = 0;
    for (const [begin, end] of places) {
      const [first, last] = [Math.max(begin - at, from), Math.min(end - at, part.text.length)];
      if (first >= last) continue;
      if (first > from) cut.push({ ...part, text: part.text.slice(from, first) });
      cut.push({ ...part, text: part.text.slice(first, last), marked: true });
      from = last;
    }
    if (from < part.text.length) cut.push({ ...part, text: part.text.slice(from) });
    at += part.text.length;
  }
  return cut;
}

function placesOf(text: string, wanted: string): [begin: number, end: number][] {
  if (!wanted) return [];
  const literal = wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return [...text.matchAll(new RegExp(literal, "gi"))].map((one) => [one.index, one.index + one[0].length]);
}
