import { dollars } from "./Money";

/** What an id is called, where the page knows. */
export type NameOf = (id: string) => string | undefined;

export type Sentence = (details: Details, target: (otherwise: string) => string, id: string) => string;

/** What a record says of itself. One of an earlier version may lack any of it. */
export class Details {
  constructor(
    private readonly all: Record<string, unknown>,
    private readonly nameOf: NameOf,
  ) {}

  has(name: string): boolean {
    return this.all[name] !== undefined && this.all[name] !== null;
  }

  /** Also where nothing is what it was set to: an expiry that was taken away. */
  records(name: string): boolean {
    return name in this.all;
  }

  is(name: string): boolean {
    return this.all[name] === true;
  }

  text(name: string): string {
    return this.has(name) ? String(this.all[name]) : "";
  }

  list(name: string): string[] {
    const value = this.all[name];
    return Array.isArray(value) ? value.map(String) : [];
  }

  names(name: string): string {
    return this.list(name)
      .map((id) => this.nameOf(id) ?? id)
      .join(", ");
  }

  amount(name: string): string {
    const value = this.all[`${name}_microusd`];
    return typeof value === "number" ? dollars(value) : "an amount";
  }

  /** " in production", also where the project is gone but the record has its name; nothing where none is named. */
  inProject(word = "in"): string {
    const id = this.text("project_id");
    return id ? ` ${word} ${this.nameOf(id) ?? (this.text("project_name") || id)}` : "";
  }

  /** ": its receiver answered 410", or nothing. */
  because(name = "reason"): string {
    return this.has(name) ? `: ${this.text(name)}` : "";
  }

  role(): string {
    return this.text("role") === "admin" ? "an admin" : "a user";
  }
}
