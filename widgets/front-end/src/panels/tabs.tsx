/** A row of tabs. The arrow keys move along it and choose, as tabs do. */

import type { ComponentChildren, JSX } from "preact";
import { claim } from "../claim";

interface Props<T extends string> {
  label: string;
  tabs: readonly { name: T; title: string }[];
  current: T;
  choose: (name: T) => void;
  /** The attribute that tells tests which tab is which. */
  data: string;
  ls: string;
  children?: ComponentChildren;
}

export function Tabs<T extends string>({ label, tabs, current, choose, data, ls, children }: Props<T>): JSX.Element {
  const key = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    claim(event);
    const next = tabs.findIndex(({ name }) => name === current) + by;
    const tab = tabs[next];
    if (tab === undefined) return;
    choose(tab.name);
    (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  return (
    <div class="ls-sheets" role="tablist" aria-label={label} onKeyDown={key}>
      {tabs.map(({ name, title }) => (
        <button
          type="button"
          role="tab"
          key={name}
          aria-selected={name === current}
          tabIndex={name === current ? 0 : -1}
          data-ls={ls}
          {...{ [`data-${data}`]: name }}
          onClick={() => choose(name)}
        >
          {title}
        </button>
      ))}
      {children !== undefined && <span class="ls-sheets-end">{children}</span>}
    </div>
  );
}
