/** Helpers for the HTML pages that the daemon writes itself. Such a page has one inline style and loads nothing. */
import { createHash } from 'node:crypto'

/** Escapes text for an element or for an attribute in double quotes. */
export function escaped(words: string): string {
  return words
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

/**
 * Returns the value of the header `Content-Security-Policy` for a page that uses the inline style `style` and loads
 * nothing. `frames` says which other pages may embed the page in a frame.
 */
export function pagePolicy(style: string, frames: "'none'" | '*'): string {
  const hash = createHash('sha256').update(style).digest('base64')
  return `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors ${frames}`
}
