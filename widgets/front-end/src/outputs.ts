/** Handing things out of the widget: clipboard and downloads. */

/** Whether the text is on the clipboard. A page that is not secure has no clipboard API: then the old command is tried. */
export async function putOnClipboard(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Refused (no focus or no permission): the old command may still be allowed.
    }
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.style.cssText = "position:fixed;opacity:0";
  const active = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (active instanceof HTMLElement) active.focus();
  return done;
}

const TYPES: Record<string, string> = { svg: "image/svg+xml", html: "text/html", json: "application/json" };

export function offer(text: string, filename: string): void {
  const type = TYPES[filename.split(".").pop() ?? ""] ?? "text/plain";
  offerBlob(new Blob([text], { type: `${type};charset=utf-8` }), filename);
}

export function offerBlob(blob: Blob, filename: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = filename;
  link.click();
  // The download starts from the URL after the click is handled: it must outlive this call.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
