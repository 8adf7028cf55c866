/** An address that needs a second line breaks after its @. */
export function Email({ address }: { address: string }) {
  const [name, ...rest] = address.split(/(?<=@)/);
  return (
    <>
      {name}
      <wbr />
      {rest.join("")}
    </>
  );
}
