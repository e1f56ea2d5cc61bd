/** The one open menu of the widget. It lies over all regions, since a column that scrolls would cut it off. */

import type { JSX } from "preact";

import { clientBox } from "../client_box";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { focused } from "./bits";
import { Icon } from "./icons";
import { type OpenMenu, useSide } from "./side";

/** Space kept between a menu and the edge of the widget, CSS px. */
const MARGIN = 4;

export function MenuLayer(): JSX.Element | null {
  const side = useSide();
  const { menu } = side.state;
  return menu === null ? null : <Menu key={menu.label} menu={menu} close={() => side.closeMenu()} />;
}

/** Arrow keys move, Enter runs, Escape closes and gives the focus back; a press elsewhere closes. */
function Menu({ menu, close }: { menu: OpenMenu; close: () => void }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!box.current) return;
    place(box.current, menu.anchor);
    entries(box.current)[
      Math.max(
        0,
        menu.items.findIndex((item) => item.checked),
      )
    ]?.focus();
  }, []);
  useEffect(() => {
    const elsewhere = (event: Event) => {
      const path = event.composedPath();
      // A press on the anchor closes it by itself: closing here too would open it again.
      if (box.current && !path.includes(box.current) && !path.includes(menu.anchor)) close();
    };
    const root = menu.anchor.getRootNode();
    root.addEventListener("pointerdown", elsewhere, true);
    return () => root.removeEventListener("pointerdown", elsewhere, true);
  }, []);
  const leave = () => {
    close();
    menu.anchor.focus();
  };
  const key = (event: KeyboardEvent) => {
    const all = box.current ? entries(box.current) : [];
    const at = all.indexOf(focused(box.current) as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (next !== undefined) all[(next + all.length) % all.length]?.focus();
    else if (event.key === "Escape" || event.key === "Tab") leave();
    // Letters must not reach the shortcuts of the graph while a menu is open.
    event.stopPropagation();
    if (event.key !== "Enter" && event.key !== " ") event.preventDefault();
  };
  return (
    <div class="ls-popup" role="menu" aria-label={menu.label} ref={box} onKeyDown={key} data-ls="menu">
      {menu.items.map((item) => (
        <button
          type="button"
          key={item.name}
          class="ls-popup-item"
          role={item.checked === undefined ? "menuitem" : "menuitemradio"}
          aria-checked={item.checked}
          aria-disabled={item.disabled ? "true" : undefined}
          tabIndex={-1}
          data-ls="menu-item"
          data-item={item.name}
          onClick={() => {
            if (item.disabled) return;
            leave();
            item.run();
          }}
        >
          <span>{item.checked ? <Icon name="check" /> : item.icon && <Icon name={item.icon} />}</span>
          <span class="ls-popup-text">
            <span>{item.label}</span>
            {item.detail && <span class="ls-2 ls-11">{item.detail}</span>}
          </span>
        </button>
      ))}
    </div>
  );
}

function entries(menu: HTMLElement): HTMLElement[] {
  return [...menu.querySelectorAll<HTMLElement>(".ls-popup-item")];
}

/** Under the anchor, or above it where there is more room, inside the widget. */
function place(menu: HTMLElement, anchor: HTMLElement): void {
  const frame = menu.parentElement?.getBoundingClientRect();
  if (!frame) return;
  const at = clientBox(anchor);
  menu.style.maxHeight = `${frame.height - 2 * MARGIN}px`;
  const { width, height } = clientBox(menu);
  const below = at.bottom - frame.top + 2;
  const above = at.top - frame.top - 2 - height;
  const top = below + height <= frame.height - MARGIN || above < MARGIN ? below : above;
  const left = at.left - frame.left;
  menu.style.left = `${Math.max(MARGIN, Math.min(left, frame.width - width - MARGIN))}px`;
  menu.style.top = `${Math.max(MARGIN, Math.min(top, frame.height - height - MARGIN))}px`;
}
