/** For the `ref` of what scrolls sideways: it is marked with the ends at which something is cut off, and the theme lets those fade. */
export function cutEdges(element: HTMLElement | null): (() => void) | undefined {
  if (!element) return undefined;
  const mark = () => {
    const { scrollLeft, clientWidth, scrollWidth } = element;
    element.toggleAttribute("data-cut-left", scrollLeft > 1);
    element.toggleAttribute("data-cut-right", scrollLeft + clientWidth < scrollWidth - 1);
  };
  const resized = new ResizeObserver(mark);
  // What is observed already stays so.
  const observeChildren = () => {
    for (const child of element.children) resized.observe(child);
  };
  const changed = new MutationObserver((changes) => {
    for (const { removedNodes } of changes) for (const node of removedNodes) if (node instanceof Element) resized.unobserve(node);
    observeChildren();
    mark();
  });
  resized.observe(element);
  observeChildren();
  // A tab that comes later makes nothing that is there another size.
  changed.observe(element, { childList: true });
  element.addEventListener("scroll", mark, { passive: true });
  return () => {
    resized.disconnect();
    changed.disconnect();
    element.removeEventListener("scroll", mark);
  };
}
