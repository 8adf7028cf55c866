import classes from "./ContainerDetail.module.css";

const PART = /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(curl|import|from|const|await|for|in|of|print|new)\b/g;

/** Code with its strings and keywords told apart; everything is text, nothing is markup. */
export function Code({ text }: { text: string }) {
  const parts: React.ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(PART)) {
    parts.push(text.slice(end, match.index));
    parts.push(
      <span key={match.index} className={match[1] ? "string" : "keyword"}>
        {match[0]}
      </span>,
    );
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return (
    <pre className={classes.code} tabIndex={0}>
      {parts}
    </pre>
  );
}
