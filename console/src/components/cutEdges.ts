/** For the `ref` of what scrolls sideways: it is marked with the ends at which something is cut off, and the theme lets those fade. */
export function cutEdges(element: HTMLElement | null): (() => void) | undefined {
  if (!element) return undefined;
  const mark = () => {
    const { scrollLeft, clientWidth, scrollWidth } = element;
    element.toggleAttribute("data-cut-left", scrollLeft > 1);
    element.toggleAttribute("data-cut-right", scrollLeft + clientWidth < scrollWidth - 1);
  };
  const resized = new ResizeObserver(mark);
  resized.observe(element);
  for (const child of element.children) resized.observe(child);
  element.addEventListener("scroll", mark, { passive: true });
  return () => {
    resized.disconnect();
    element.removeEventListener("scroll", mark);
  };
}
