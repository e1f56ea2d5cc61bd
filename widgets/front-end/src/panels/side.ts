/** State that only the panels share: the sheet in the right column, the drawer of the rail, the open menu. */

import { createContext } from "preact";
import { useContext, useLayoutEffect, useReducer } from "preact/hooks";

import type { Store } from "../store";
import type { IconName } from "./icons";

export type Sheet = "node" | "misses" | "steps" | "changes";

export interface Item {
  name: string;
  label: string;
  detail?: string;
  icon?: IconName;
  checked?: boolean;
  disabled?: boolean;
  run: () => void;
}

export interface OpenMenu {
  label: string;
  items: Item[];
  /** The control that opened it, which gets the focus back. */
  anchor: HTMLElement;
}

interface SideState {
  sheet: Sheet;
  drawer: boolean;
  menu: OpenMenu | null;
}

let displays = 0;

export class Side {
  /** Begins the ids of this display's elements: a page may hold many displays. */
  readonly id = `ls${++displays}`;
  state: SideState = { sheet: "node", drawer: false, menu: null };
  readonly #listeners = new Set<() => void>();
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #update(change: Partial<SideState>): void {
    this.state = { ...this.state, ...change };
    for (const listener of [...this.#listeners]) listener();
  }

  show(sheet: Sheet): void {
    if (sheet !== this.state.sheet) this.#update({ sheet });
  }

  /** Shows a sheet that was asked for, also where sheets are closed or another region has their place. */
  open(sheet: Sheet): void {
    this.show(sheet);
    this.#store.setSheetOpen(true);
  }

  setDrawer(drawer: boolean): void {
    if (drawer !== this.state.drawer) this.#update({ drawer });
  }

  /** Opens a menu under its anchor, or closes it when it is the open one. */
  toggleMenu(menu: OpenMenu): void {
    this.#update({ menu: this.state.menu?.anchor === menu.anchor ? null : menu });
  }

  closeMenu(): void {
    if (this.state.menu !== null) this.#update({ menu: null });
  }
}

export const SideContext = createContext<Side | null>(null);

export function useSide(): Side {
  const side = useContext(SideContext);
  if (side === null) throw new Error("a panel is mounted outside of its frame");
  const [, again] = useReducer<number, void>((count) => count + 1, 0);
  useLayoutEffect(() => side.subscribe(() => again()), [side]);
  return side;
}
