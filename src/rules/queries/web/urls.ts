/** Extracts parts of the addresses in events. Percent-encoding is not decoded. */

const ABSOLUTE = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)([^?#]*)/i

/**
 * Returns the path of an address, or `/` if the address has no path. If the text is not an address, returns the text
 * before the first `?` or `#`.
 */
export function pathOf(url: string): string {
  const match = ABSOLUTE.exec(url)
  return match === null ? url.replace(/[?#].*$/s, '') : match[2] || '/'
}

/** Returns the host of an address without its port. Returns '' if the text is not an address. */
export function hostOf(url: string): string {
  const [, authority = ''] = ABSOLUTE.exec(url) ?? []
  return authority.slice(authority.lastIndexOf('@') + 1).replace(/:\d*$/, '')
}
