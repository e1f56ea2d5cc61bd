/** "Would match if…": changes that were tried on a copy. What changes the numbers is offered as a try, never as a fix. */

import type { JSX } from "preact";

import type { Explanation, Suggestion } from "../protocol";
import { whatIfKey } from "../state";
import { Button, Link, Pill, type Tone } from "./bits";
import { Icon } from "./icons";
import { brief } from "./text";
import { useAway, usePick, useStore } from "./use";

export function Suggestions({
  of,
  node,
  table,
}: {
  of: Explanation;
  node: string;
  table?: boolean;
}): JSX.Element | null {
  const store = useStore();
  const answer = usePick((state) => state.whatIf[whatIfKey(of.pattern, node)]);
  const away = useAway();
  if (!of.suggestions_possible) return null;
  const head = (
    <div class="ls-suggest-head">
      <Icon name="bulb" />
      <span>Would match if…</span>
      {answer === undefined ? (
        <span class="ls-push">
          <Button
            label="Try on a copy"
            disabled={away}
            data-ls="what-if"
            onClick={() => void store.requestWhatIf(node, of.pattern)}
          />
        </span>
      ) : (
        <span class="ls-push ls-11 ls-2" style={{ fontWeight: 400 }}>
          {answer === "asking" ? "" : "each one tried on a copy"}
        </span>
      )}
    </div>
  );
  const list =
    answer === undefined ? null : answer === "asking" ? (
      <div class="ls-arg ls-2" data-ls="what-if-asking">
        <span class="ls-spin" /> trying each change on a copy…{" "}
        <Link text="Stop" data-ls="what-if-stop" onClick={() => store.cancel("what_if")} />
      </div>
    ) : answer.suggestions.length === 0 ? (
      <div class="ls-2">No single change makes it match.</div>
    ) : (
      answer.suggestions.map((suggestion) => <One key={suggestion.says} of={suggestion} table={table === true} />)
    );
  if (table) {
    return (
      <div class="ls-why-if" data-ls="suggestions" style={{ padding: "4px 0" }}>
        <div style={{ padding: "0 12px" }}>{head}</div>
        {answer !== undefined && answer !== "asking" && answer.suggestions.length > 0 ? (
          list
        ) : (
          <div style={{ padding: "0 12px" }}>{list}</div>
        )}
      </div>
    );
  }
  return (
    <div class="ls-suggest" data-ls="suggestions">
      {head}
      {list}
    </div>
  );
}

function One({ of, table }: { of: Suggestion; table: boolean }): JSX.Element {
  const store = useStore();
  const away = useAway();
  const { apply } = of;
  const numbers: Tone = of.same === null ? "none" : of.same ? "pass" : "fail";
  const safe = of.matches && of.same === true;
  return (
    <div
      class={table ? "ls-why-try" : "ls-suggestion"}
      data-ls="suggestion"
      data-matches={of.matches}
      data-same={String(of.same)}
    >
      <span class={table ? "ls-cut" : "ls-says"} title={brief(of.says)}>
        {brief(of.says)}
      </span>
      <span class="ls-small">
        <Pill
          tone={of.matches ? "pass" : "fail"}
          text={of.matches ? "matches" : "no match"}
          data-ls="suggestion-matches"
        />
      </span>
      <span class="ls-small" style={{ minWidth: "0" }}>
        <Pill
          tone={numbers}
          text={of.parity || (of.same === null ? "not measured" : of.same ? "same" : "differs")}
          data-ls="suggestion-same"
        />
      </span>
      {apply === null || !of.matches ? (
        <span />
      ) : (
        <button
          type="button"
          class="ls-link"
          aria-disabled={away}
          title={safe ? "Apply: the numbers stay the same" : "Try it: the numbers change. Undo takes it back"}
          data-ls={safe ? "suggestion-apply" : "suggestion-try"}
          onClick={() => away || store.apply(apply)}
        >
          {safe ? "Apply" : "Try"}
        </button>
      )}
    </div>
  );
}
