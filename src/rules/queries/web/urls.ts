/** Parts of addresses as events carry them: cut out of the text, nothing decoded. */

const ABSOLUTE = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)([^?#]*)/i

/** The path of an address, `/` when it has none; of any other text what stands before `?` or `#`. */
export function pathOf(url: string): string {
  const match = ABSOLUTE.exec(url)
  return match === null ? url.replace(/[?#].*$/s, '') : match[2] || '/'
}

/** The host of an address without its port; '' for any other text. */
export function hostOf(url: string): string {
  const [, authority = ''] = ABSOLUTE.exec(url) ?? []
  return authority.slice(authority.lastIndexOf('@') + 1).replace(/:\d*$/, '')
}
