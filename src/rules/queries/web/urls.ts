/** Cuts parts out of the addresses in events. Nothing is decoded. */

const ABSOLUTE = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)([^?#]*)/i

/** Returns the path of an address, or `/` if it has none. For any other text, it returns the text before `?` or `#`. */
export function pathOf(url: string): string {
  const match = ABSOLUTE.exec(url)
  return match === null ? url.replace(/[?#].*$/s, '') : match[2] || '/'
}

/** Returns the host of an address without its port. Returns '' for any other text. */
export function hostOf(url: string): string {
  const [, authority = ''] = ABSOLUTE.exec(url) ?? []
  return authority.slice(authority.lastIndexOf('@') + 1).replace(/:\d*$/, '')
}
