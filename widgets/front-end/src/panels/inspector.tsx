/** What the selected node is: op, module, source, output, arguments, constants, users, where it came from. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import type { Inspection } from "../protocol";
import { Badge, Button, Link, MenuButton, Name } from "./bits";
import { Constant } from "./constant";
import { Icon } from "./icons";
import { LinkedText, NodeLinks } from "./node_link";
import { RegionError } from "./region_error";
import type { Item } from "./side";
import { brief, plural } from "./text";
import { useAway, usePatterns, usePick, useStore } from "./use";

/** Arguments shown at once; the rest is one click away. */
const ARGUMENTS = 6;

export function Inspector(): JSX.Element {
  const node = usePick((state) => state.selected[0] ?? null);
  const inspection = usePick((state) => state.inspection);
  return (
    <div class="ls-inspector" data-ls="inspector" data-node={node ?? ""}>
      <RegionError region="inspector" />
      {node === null ? <Nothing /> : <Head node={node} inspection={inspection?.node === node ? inspection : null} />}
      {inspection !== null && inspection.node === node && <Facts of={inspection} />}
    </div>
  );
}

function Nothing(): JSX.Element {
  return (
    <div class="ls-pad" style={{ paddingTop: "8px" }} data-ls="nothing-selected">
      <div class="ls-b">No node selected</div>
      <div class="ls-2">Click a node to read what it is and why patterns take it or do not.</div>
    </div>
  );
}

function Head({ node, inspection }: { node: string; inspection: Inspection | null }): JSX.Element {
  const store = useStore();
  const category = usePick((state) => {
    const row = state.scene?.nodeRow(node) ?? -1;
    return row < 0 ? "other" : (state.scene?.category(row) ?? "other");
  });
  const others = usePick((state) => state.selected.length - 1);
  const back = usePick((state) => state.canGoBack);
  const forward = usePick((state) => state.canGoForward);
  const traced = usePick((state) => state.traced !== null);
  const away = useAway();
  const items = (): Item[] => {
    const skip = (name: string, label: string, target: Parameters<typeof store.skip>[0]): Item => ({
      name,
      label: brief(label, 80),
      icon: "skip",
      disabled: away,
      run: () => store.skip(target),
    });
    const path = inspection?.module.at(-1)?.path ?? "";
    return [
      { name: "copy", label: "Copy the name", icon: "copy", run: () => void store.copyText(node, "name") },
      { name: "centre", label: "Show in the graph", icon: "locate", run: () => void store.travel(node) },
      { name: "inputs", label: "Trace inputs", icon: "up", run: () => store.trace(node, "inputs") },
      { name: "outputs", label: "Trace outputs", icon: "down", run: () => store.trace(node, "outputs") },
      ...(traced
        ? [{ name: "untrace", label: "Stop tracing", icon: "cross" as const, run: () => store.trace(node, null) }]
        : []),
      skip("skip-node", "Skip this node", { node }),
      ...(path === "" ? [] : [skip("skip-module", `Skip the module ${path}`, { module: path })]),
      ...(inspection === null ? [] : [skip("skip-op", `Skip every ${inspection.op}`, { op: inspection.op })]),
    ];
  };
  return (
    <div class="ls-node-head">
      <i class={`ls-swatch ls-k-${category}`} title={category} />
      <h3 class="ls-node-title" data-ls="node-name">
        <Name text={node} />
      </h3>
      <span class="ls-mono ls-2 ls-cut" data-ls="node-target" title={brief(inspection?.target ?? "")}>
        {inspection === null ? "" : brief(inspection.op, 120)}
      </span>
      {others > 0 && <span class="ls-11 ls-2">+{others}</span>}
      <span class="ls-group ls-push">
        {(back || forward) && (
          <>
            <Button
              label="Back (Alt+←)"
              icon="left"
              bare
              disabled={!back}
              data-ls="back"
              onClick={() => store.back()}
            />
            <Button
              label="Forward (Alt+→)"
              icon="right"
              bare
              disabled={!forward}
              data-ls="forward"
              onClick={() => store.forward()}
            />
          </>
        )}
        <MenuButton label="What to do with this node" icon="dots" bare items={items} menu="Node" data-ls="node-menu" />
      </span>
    </div>
  );
}

function Facts({ of }: { of: Inspection }): JSX.Element {
  const wide = usePick((state) => state.width === "wide");
  const [last] = of.module.slice(-1);
  return (
    <>
      {of.skipped !== null && (
        <div class="ls-banner ls-11" data-ls="node-skipped">
          <Icon name="skip" />
          <span>{brief(of.skipped)}</span>
        </div>
      )}
      <dl class="ls-kv">
        <Fact name="module" about={last?.type}>
          <Path of={of} />
        </Fact>
        {of.source !== null && (
          <Fact name="source" about={`${of.source.file}:${of.source.line}`}>
            <span class="ls-mono ls-cut ls-whole" data-ls="node-source">
              {brief(baseName(of.source.file), 60)}:{of.source.line}{" "}
              <span class="ls-2">{brief(of.source.text, 160)}</span>
            </span>
          </Fact>
        )}
        <Fact name="output">
          <span class="ls-mono ls-cut ls-whole" title={brief(of.output)} data-ls="node-output">
            {brief(of.output, 160)}
          </span>
        </Fact>
        {of.arguments.length > 0 && (
          <Fact name="args">
            <Arguments of={of} />
          </Fact>
        )}
        <Provenance of={of} />
        {wide && <Rest of={of} />}
      </dl>
      {!wide && (
        <details class="ls-fold" data-ls="more-facts">
          <summary>
            <Icon name="right" small />
            {moreInWords(of)}
          </summary>
          <dl class="ls-kv">
            <Rest of={of} />
          </dl>
        </details>
      )}
    </>
  );
}

/** What a narrow column folds away, so that the reasons below stay in view. */
function Rest({ of }: { of: Inspection }): JSX.Element {
  return (
    <>
      {of.strides !== "" && (
        <Fact name="strides">
          <span class="ls-mono ls-cut ls-whole">{brief(of.strides, 160)}</span>
        </Fact>
      )}
      {of.constants.length > 0 && (
        <Fact name="consts">
          {of.constants.map((constant) => (
            <Constant key={constant.node} constant={constant} />
          ))}
        </Fact>
      )}
      {of.users.length > 0 && (
        <Fact name="users">
          <NodeLinks nodes={of.users} />
        </Fact>
      )}
      {of.delegated !== null && (
        <Fact name="delegate">
          <Delegated of={of.delegated} />
        </Fact>
      )}
    </>
  );
}

function moreInWords(of: Inspection): string {
  const parts = [
    "strides",
    of.constants.length > 0 ? plural(of.constants.length, "constant") : "",
    of.users.length > 0 ? plural(of.users.length, "user") : "",
  ];
  return parts.filter(Boolean).join(", ");
}

function Fact({
  name,
  about,
  children,
}: {
  name: string;
  about?: string | undefined;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <>
      <dt title={about === undefined ? undefined : brief(about)}>{name}</dt>
      <dd title={about === undefined ? undefined : brief(about)} data-ls="fact" data-fact={name}>
        {children}
      </dd>
    </>
  );
}

/** detail › 1 › conv: each part selects nothing but says its type; the last one, which matters most, is cut last. */
function Path({ of }: { of: Inspection }): JSX.Element {
  const parts = of.module.filter(({ path }) => path !== "");
  if (parts.length === 0) return <span class="ls-2">{brief(of.module[0]?.type ?? "the program", 80)}</span>;
  return (
    <span class="ls-path" data-ls="node-module" data-path={parts.at(-1)?.path}>
      {parts.map(({ path, type }, index) => (
        <>
          {index > 0 && <span class="ls-2">›</span>}
          <span class={index === parts.length - 1 ? "ls-cut ls-b" : "ls-cut"} title={brief(`${path} (${type})`)}>
            {brief(path.slice(index === 0 ? 0 : (parts[index - 1]?.path.length ?? -1) + 1), 80)}
          </span>
        </>
      ))}
    </span>
  );
}

/** By name, in the order of the op's schema: running on in one paragraph, since most are short. */
function Arguments({ of }: { of: Inspection }): JSX.Element {
  const [all, setAll] = useState(false);
  const shown = all ? of.arguments : of.arguments.slice(0, ARGUMENTS);
  return (
    <span class="ls-args">
      {shown.map((argument) => (
        <span class="ls-arg" key={argument.name} data-ls="argument" data-argument={argument.name}>
          <span class="ls-2 ls-cut">{brief(argument.name, 60)}</span>
          <span class="ls-cut" title={brief(argument.text)}>
            <LinkedText text={argument.text} nodes={argument.nodes} />
          </span>
        </span>
      ))}
      {shown.length < of.arguments.length && (
        <Link
          text={`${of.arguments.length - shown.length} more`}
          data-ls="more-arguments"
          onClick={() => setAll(true)}
        />
      )}
    </span>
  );
}

/** Which step made the node and of what, which one took it and what became of it. */
export function Provenance({ of }: { of: Inspection }): JSX.Element {
  const from = of.origin.filter((node) => node !== of.node);
  const to = of.became.filter((node) => node !== of.node);
  return (
    <>
      {of.born !== null && (
        <Fact name="made">
          <Step of={of.born} verb="by" />
          {from.length > 0 && <NodeLinks nodes={from} />}
        </Fact>
      )}
      {of.died !== null && (
        <Fact name="taken">
          <Step of={of.died} verb="by" />
          {to.length > 0 && <NodeLinks nodes={to} />}
        </Fact>
      )}
    </>
  );
}

function Step({ of, verb }: { of: { step: number; pattern: string }; verb: string }): JSX.Element {
  const store = useStore();
  const row = usePatterns().find(({ name }) => name === of.pattern);
  return (
    <span class="ls-arg" data-ls="provenance" data-step={of.step}>
      <button type="button" class="ls-link" onClick={() => store.setStep(of.step)}>
        step {of.step}
      </button>
      <span class="ls-2">{verb}</span>
      {row && <Badge pattern={row} />}
      <Name text={of.pattern} />
    </span>
  );
}

function Delegated({ of }: { of: { before: string; after: string } }): JSX.Element {
  const say = (text: string) => (text === "yes" ? <span class="ls-good">yes</span> : <span>{brief(text)}</span>);
  if (of.before === of.after) return say(of.after);
  return (
    <>
      <div>
        <span class="ls-2">before </span>
        {say(of.before)}
      </div>
      <div>
        <span class="ls-2">after </span>
        {say(of.after)}
      </div>
    </>
  );
}

function baseName(path: string): string {
  return path.split(/[\\/]/).at(-1) ?? path;
}
