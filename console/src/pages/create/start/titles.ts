import type { Template } from "@/api/queries";

/** Templates as their tiles call them, in what the API says of a model that one of them cannot serve: it calls them by the names that
 * requests take. */
export function withTitles(refusal: { reason: string; message: string }, templates: Pick<Template, "name" | "title">[]): string {
  if (refusal.reason !== "template_does_not_serve") return refusal.message;
  const titles = new Map(templates.map(({ name, title }) => [name, title]));
  // The model before it may be called as a template is.
  const [model = "", rest] = refusal.message.split(/(?= cannot be served by )/, 2);
  return rest === undefined ? refusal.message : model + rest.replace(/[\w-]+/g, (word) => titles.get(word) ?? word);
}
