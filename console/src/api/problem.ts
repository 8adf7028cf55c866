export interface ProblemBody {
  code: string;
  detail: string;
  errors?: { field: string; message: string }[];
  [more: string]: unknown;
}

/** What the API refused, in its own words. `message` is a sentence for the person who asked. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly body: ProblemBody,
    readonly requestId: string | null,
  ) {
    super(body.detail);
    this.name = "Problem";
  }

  get code(): string {
    return this.body.code;
  }

  /** What is wrong with one field of the form, by the name that the API has for it (`health_check.path`). */
  fields(): Record<string, string> {
    return Object.fromEntries((this.body.errors ?? []).map((one) => [one.field, sentence(one.message)]));
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");
}
