/** Pages of ours: plain HTML with a style of its own, which loads nothing. */
import { createHash } from 'node:crypto'

/** A text as it stands in an element or in an attribute in double quotes. */
export function escaped(words: string): string {
  return words
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

/**
 * Value of Content-Security-Policy for a page: the text of its style element and nothing else. `frames`: which
 * pages may show it in a frame.
 */
export function pagePolicy(style: string, frames: "'none'" | '*'): string {
  const hash = createHash('sha256').update(style).digest('base64')
  return `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors ${frames}`
}
