/** Says of an event that it is dealt with: neither the browser nor the notebook around the widget takes it for its own. */
export function claim(event: Event): void {
  event.preventDefault();
  event.stopPropagation();
}
