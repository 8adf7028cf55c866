import type { Container } from "@/api/queries";

/** How servers are told the name that requests ask for, and after those how they are told the model, which is then its name. */
const TOLD_BY = [
  "--served-model-name",
  "--alias",
  "ollama pull",
  "ollama run",
  "vllm serve",
  "--model-id",
  "--model-path",
  "--hf-repo",
  "--model",
];
/** Not a variable or a path, whose name only the server knows. */
const NAME = String.raw`[= ]+(["']?)([A-Za-z0-9][\w./:-]*)\1(?![^\s;"'])`;

/** The name that a container's model answers to, by its start command; null where that says none. Unlike the server itself, it can be
 * asked while the container sleeps or has not started. */
export function servedName({ start_command: command }: Pick<Container, "start_command">): string | null {
  for (const told of TOLD_BY) {
    const name = new RegExp(String.raw`(?<![\w-])${told}${NAME}`).exec(command ?? "")?.[2];
    if (name) return name;
  }
  return null;
}
