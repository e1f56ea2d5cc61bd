/** The columns beside the graph: patterns, skips and legend at the left, node, misses, steps and changes at the right. */

import type { JSX } from "preact";

import type { Tab } from "../state";
import { Badge, Boundary } from "./bits";
import { Changes } from "./changes";
import { Icon } from "./icons";
import { Inspector } from "./inspector";
import { Legend } from "./legend";
import { Patterns } from "./patterns";
import { Reasons } from "./reasons";
import { type Sheet, useSide } from "./side";
import { Skips } from "./skips";
import { Steps } from "./steps";
import { Tabs } from "./tabs";
import { brief } from "./text";
import { hovering, usePatterns, usePick, useStore } from "./use";
import { WhyFocus } from "./why_focus";
import { WhyNotPanel } from "./why_not";

export function LeftColumn(): JSX.Element {
  const side = useSide();
  const railed = usePick((state) => state.width === "narrow" || (state.whyFocus && state.width !== "small"));
  if (railed && !side.state.drawer) return <Rail />;
  return (
    <div class="ls-column">
      <Boundary panel="patterns">
        <Patterns />
      </Boundary>
      <Boundary panel="skip list">
        <Skips />
      </Boundary>
      <Boundary panel="legend">
        <Legend />
      </Boundary>
      {railed && (
        <button
          type="button"
          class="ls-tool"
          style={{ alignSelf: "end" }}
          data-ls="drawer-close"
          onClick={() => side.setDrawer(false)}
        >
          <Icon name="left" small />
          Close
        </button>
      )}
    </div>
  );
}

/** The patterns as badges only, for when the room is needed elsewhere. */
function Rail(): JSX.Element {
  const store = useStore();
  const side = useSide();
  const patterns = usePatterns();
  const focusedPattern = usePick((state) => state.focusedPattern);
  return (
    <div class="ls-rail ls-column" role="group" aria-label="Patterns" data-ls="rail">
      {patterns.map((row) => (
        <button
          type="button"
          key={row.name}
          class={`ls-c${row.color % 6}${row.name === focusedPattern ? " ls-on" : ""}`}
          aria-pressed={row.name === focusedPattern}
          aria-label={brief(`${row.number} ${row.name}, ${row.enabled ? "on" : "off"}, ${row.summary}`)}
          title={brief(`${row.name}: ${row.summary}`)}
          data-ls="rail-pattern"
          data-pattern={row.name}
          {...hovering(store, { pattern: row.name })}
          onClick={() => store.focusPattern(row.name === focusedPattern ? null : row.name)}
        >
          <Badge pattern={row} hollow={row.name !== focusedPattern} />
        </button>
      ))}
      <button
        type="button"
        aria-label="Show the patterns and the skip list"
        title="Patterns and skip list"
        data-ls="drawer-open"
        onClick={() => side.setDrawer(true)}
      >
        <Icon name="right" />
      </button>
    </div>
  );
}

const SHEETS: { name: Sheet; title: string }[] = [
  { name: "node", title: "Node" },
  { name: "misses", title: "Misses" },
  { name: "steps", title: "Steps" },
  { name: "changes", title: "Changes" },
];

export function RightColumn(): JSX.Element {
  const store = useStore();
  const side = useSide();
  const focus = usePick((state) => state.whyFocus && !state.teaching);
  const teaching = usePick((state) => state.teaching);
  const width = usePick((state) => state.width);
  if (teaching) {
    return (
      <Boundary panel="steps">
        <Steps />
      </Boundary>
    );
  }
  if (focus) {
    return (
      <Boundary panel="why not">
        <WhyFocus />
      </Boundary>
    );
  }
  const { sheet } = side.state;
  return (
    <div class="ls-column">
      <Tabs label="About" tabs={SHEETS} current={sheet} choose={(name) => side.show(name)} ls="sheet" data="sheet">
        {width === "narrow" && (
          <button
            type="button"
            class="ls-tool"
            aria-label="Close the sheet"
            data-ls="sheet-close"
            onClick={() => store.setSheetOpen(false)}
          >
            <Icon name="down" />
          </button>
        )}
      </Tabs>
      {sheet === "steps" ? (
        <Boundary panel="steps" key="steps">
          <Steps />
        </Boundary>
      ) : (
        <div
          class="ls-scroll"
          key={sheet}
          role="tabpanel"
          aria-label={SHEETS.find(({ name }) => name === sheet)?.title ?? ""}
          style={{ flex: "1" }}
        >
          {sheet === "node" && <NodeSheet />}
          {sheet === "misses" && (
            <Boundary panel="misses" key="misses">
              <Reasons />
            </Boundary>
          )}
          {sheet === "changes" && (
            <Boundary panel="changes" key="changes">
              <Changes />
            </Boundary>
          )}
        </div>
      )}
    </div>
  );
}

function NodeSheet(): JSX.Element {
  const none = usePick((state) => state.selected.length === 0);
  return (
    <>
      <Boundary panel="inspector">
        <Inspector />
      </Boundary>
      <Boundary panel="why not">{none ? <Reasons only={8} /> : <WhyNotPanel />}</Boundary>
    </>
  );
}

const REGIONS: { name: Tab; title: string }[] = [
  { name: "graph", title: "Graph" },
  { name: "patterns", title: "Patterns" },
  { name: "why", title: "Why" },
  { name: "numbers", title: "Numbers" },
];

/** Under 600 px one region shows at a time. */
export function NarrowTabs(): JSX.Element {
  const store = useStore();
  const tab = usePick((state) => state.tab);
  return (
    <Tabs label="Regions" tabs={REGIONS} current={tab} choose={(name) => store.setTab(name)} ls="tab" data="tab" />
  );
}
