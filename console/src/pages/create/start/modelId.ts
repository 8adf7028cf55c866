/** What somebody wrote or pasted, read as a model of the hub. What is sent is always `hf:ORGANIZATION/NAME`, with the file apart: the
 * API reads fewer of the ways in which people write both at once. Pure. */

export interface NamedModel {
  /** `hf:ORGANIZATION/NAME`, with `@REVISION` where it is not the usual one. */
  id: string;
  /** Where one of a repository's GGUF files was named: the file, or its quantisation. */
  file: string | null;
}

/** Where people take other things from. Any other host may be the mirror that Moorage asks: only the API knows which one that is. */
const NO_HUBS = [
  "ollama.com",
  "ollama.ai",
  "github.com",
  "githubusercontent.com",
  "ghcr.io",
  "gitlab.com",
  "bitbucket.org",
  "modelscope.cn",
  "modelscope.ai",
  "kaggle.com",
  "civitai.com",
  "replicate.com",
  "docker.com",
  "docker.io",
  "quay.io",
  "nvidia.com",
  "nvcr.io",
  "arxiv.org",
];
const USUAL_REVISION = "main";
const INSTEAD = "Paste a model's page, such as https://huggingface.co/Qwen/Qwen2.5-7B-Instruct, or write hf:ORGANIZATION/NAME.";
/** What the hub has beside models, by how its addresses begin. */
const NO_MODELS: Record<string, string> = {
  datasets: "a dataset",
  spaces: "a Space",
  collections: "a collection",
  papers: "a paper",
  docs: "documentation",
  blog: "a blog post",
};
/** Pages of a model whose addresses name a revision, and some of them a file. */
const VIEWS = new Set(["tree", "blob", "resolve", "raw", "commit"]);
// These are the API's.
const NAME = /^[A-Za-z0-9](?:[\w.-]{0,94}\w)?$/;
const REVISION = /^[A-Za-z0-9][\w./-]{0,99}$/;
const TAG = /^[\w.-]{1,40}$/;
/** They would lead to another path of the hub. */
const LEADS_AWAY = /\.\.|\/\/|\/$/;
const ONE_OF_SEVERAL = /-\d{5}-of-(\d{5}\.gguf)$/i;

/** Null while it is no model yet, so that no hub is asked for half a name. */
export function namedModel(text: string): NamedModel | null {
  if (mistakenModel(text) !== null) return null;
  const { host, parts, pinned } = taken(text);
  const [owner = "", last = "", view, ...rest] = parts;
  const isOfView = view !== undefined && VIEWS.has(view);
  // A model has other pages too, and they name no revision.
  if (view !== undefined && !isOfView && host === null) return null;
  // Other programs write a quantisation so: `NAME:Q4_K_M`.
  const [, name = "", tag = ""] = /^([^:]*):?(.*)$/s.exec(last) ?? [];
  const [viewed, path] = isOfView ? revisionAndPath(rest) : [null, ""];
  const revision = pinned ?? viewed ?? USUAL_REVISION;
  const id = `hf:${owner}/${name}${revision === USUAL_REVISION ? "" : `@${revision}`}`;
  if (!NAME.test(owner) || !NAME.test(name) || !REVISION.test(revision) || LEADS_AWAY.test(id)) return null;
  if (tag !== "" && !TAG.test(tag)) return null;
  // A large file comes in several, of which the hub's list has the first.
  const file = /\.gguf$/i.test(path) ? path.replace(ONE_OF_SEVERAL, "-00001-of-$1") : tag || null;
  return { id, file };
}

/** Why it can be no model however it goes on, and what to paste instead. Null: it is one, or may become one. */
export function mistakenModel(text: string): string | null {
  const { host, parts } = taken(text);
  if (host !== null && isNoHub(host)) return `Moorage reads addresses at huggingface.co, not at ${host}. ${INSTEAD}`;
  const what = parts.length > 1 ? NO_MODELS[parts[0] ?? ""] : undefined;
  return what === undefined ? null : `This is the address of ${what}, not of a model. ${INSTEAD}`;
}

function isNoHub(host: string): boolean {
  const name = host.replace(/:\d+$/, "");
  return NO_HUBS.some((one) => name === one || name.endsWith(`.${one}`));
}

interface Taken {
  /** Null where none is named, or it is not yet written to its end. */
  host: string | null;
  /** Of the path. */
  parts: string[];
  /** What stands after the name and an @. */
  pinned: string | null;
}

function taken(text: string): Taken {
  const [, scheme = "", address = ""] = /^(https?:\/\/|hf:\/\/|hf:)?(.*)$/is.exec(text.trim()) ?? [];
  const [, first = "", path] = /^([^/?#]*)(.*)$/s.exec(address) ?? [];
  // Organizations have no dot in their names, hosts do.
  const isAddress = scheme.toLowerCase().startsWith("http") || (scheme === "" && first.includes("."));
  const named = (isAddress ? (path ?? "") : address).replace(/[?#].*$/s, "");
  // A file's name may have an @ too.
  const [, whole = named, pinned = ""] = /^(\/*[^/@]+\/[^/@]+)@(.*)$/s.exec(named) ?? [];
  const parts = whole.split("/").map(decoded).filter(Boolean);
  return { host: isAddress && path ? first.toLowerCase() : null, parts, pinned: pinned.replace(/\/+$/, "") || null };
}

/** As it stands where it is no such encoding: then it is no name either. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** `main` and `model.gguf`; `refs/pr/1` is what a pull request holds. */
function revisionAndPath(parts: string[]): [revision: string | null, path: string] {
  const length = parts[0] === "refs" ? 3 : 1;
  return [parts.slice(0, length).join("/") || null, parts.slice(length).join("/")];
}
