/** The device that the target lowers for: limits and switches that conditions of patterns look at. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

import type { ProfileField } from "../protocol";
import { Button, Heading } from "./bits";
import { RegionError } from "./region_error";
import { useSide } from "./side";
import { brief } from "./text";
import { usePick, useStore } from "./use";

const NO_FIELDS: readonly ProfileField[] = [];

export function Device({ onClose }: { onClose: () => void }): JSX.Element {
  const fields = usePick((state) => state.scene?.header.profile ?? NO_FIELDS);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    box.current?.querySelector<HTMLElement>("input, select")?.focus();
    const root = box.current?.getRootNode() ?? document;
    const away = (event: Event) => {
      if (box.current && !event.composedPath().includes(box.current)) onClose();
    };
    root.addEventListener("pointerdown", away, true);
    return () => root.removeEventListener("pointerdown", away, true);
  }, []);
  const key = (event: KeyboardEvent) => {
    if (event.key === "Escape") onClose();
    event.stopPropagation();
  };
  return (
    <div class="ls-device" role="dialog" aria-label="Device profile" ref={box} onKeyDown={key} data-ls="device">
      <Heading text="Device profile">
        <Button label="Close" icon="cross" bare data-stop="" data-ls="device-close" onClick={onClose} />
      </Heading>
      <RegionError region="toolbar" />
      {fields.map((field) => (
        <Field key={field.name} field={field} />
      ))}
    </div>
  );
}

function Field({ field }: { field: ProfileField }): JSX.Element {
  const store = useStore();
  const id = `${useSide().id}-field-${field.name}`;
  const set = (text: string) => {
    const value = field.kind === "int" || field.kind === "float" ? Number(text) : text;
    if (value !== field.value && !Number.isNaN(value)) store.setProfile(field.name, value);
  };
  const shared = { id, class: "ls-input", "data-ls": "device-field", "data-field": field.name };
  return (
    <div class="ls-field">
      <label for={id}>{field.name.replaceAll("_", " ")}</label>
      {field.kind === "bool" ? (
        <input
          {...shared}
          class=""
          type="checkbox"
          checked={field.value === true}
          onChange={(event) => store.setProfile(field.name, event.currentTarget.checked)}
        />
      ) : field.kind === "choice" ? (
        <select {...shared} value={String(field.value)} onChange={(event) => set(event.currentTarget.value)}>
          {field.choices.map((choice) => (
            <option key={choice} value={choice}>
              {choice}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...shared}
          type="text"
          inputMode={field.kind === "str" ? "text" : field.kind === "int" ? "numeric" : "decimal"}
          list={undefined}
          value={String(field.value)}
          onChange={(event) => set(event.currentTarget.value)}
        />
      )}
      {field.help !== "" && <span class="ls-11 ls-2">{brief(field.help)}</span>}
    </div>
  );
}
