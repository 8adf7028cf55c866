import type { Template } from "@/api/queries";

/** One of those that serve the same kinds of models, in the same formats: what a list of examples shows. */
export function oneOfEachKind(templates: Template[]): Template[] {
  return templates.filter((one, at) => templates.findIndex((other) => isLike(one, other)) === at);
}

function isLike(one: Template, other: Template): boolean {
  return one.kinds.join() === other.kinds.join() && one.formats.join() === other.formats.join();
}
