/** Where an element stands on the screen, in px. Under a name that the bundle can shorten, since it is asked so often. */
export const clientBox = (element: Element): DOMRect => element.getBoundingClientRect();
