import { Fragment } from "react";

/** An answer's paragraphs, lists, bold and code. It is built from text; a model cannot write markup into this page. */
export function Prose({ text }: { text: string }) {
  return (
    <>
      {text.split(/(```[\s\S]*?(?:```|$))/).map((part, index) =>
        part.startsWith("```") ? (
          <pre key={index} tabIndex={0}>
            <code>{part.replace(/^```\w*\n?/, "").replace(/```$/, "")}</code>
          </pre>
        ) : (
          part.split(/\n{2,}/).map((block, at) => (block.trim() ? <Block key={`${index} ${at}`} text={block} /> : null))
        ),
      )}
    </>
  );
}

function Block({ text }: { text: string }) {
  const lines = text.split("\n");
  if (lines.every((line) => /^\s*([-*]|\d+\.)\s/.test(line))) {
    return (
      <ul>
        {lines.map((line, index) => (
          <li key={index}>
            <Inline text={line.replace(/^\s*([-*]|\d+\.)\s+/, "")} />
          </li>
        ))}
      </ul>
    );
  }
  return (
    <p>
      {lines.map((line, index) => (
        <Fragment key={index}>
          {index > 0 ? <br /> : null}
          <Inline text={line} />
        </Fragment>
      ))}
    </p>
  );
}

function Inline({ text }: { text: string }) {
  return text.split(/(\*\*[^*]+\*\*|`[^`]+`)/).map((part, index) => {
    if (part.startsWith("**")) return <strong key={index}>{part.slice(2, -2)}</strong>;
    if (part.startsWith("`") && part.length > 1) return <code key={index}>{part.slice(1, -1)}</code>;
    return <Fragment key={index}>{part}</Fragment>;
  });
}
