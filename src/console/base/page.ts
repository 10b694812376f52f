/** What the address says of the page that is shown, and the addresses of pages of the project. */
import { computed } from '@preact/signals'
import { href, path } from './address.ts'
import { project } from './session.ts'

/** What a page is about: of `/p/1/flags/7` it is `7`; empty for lists. */
export const pageId = computed(() => decodeURIComponent(path.value.split('/')[4] ?? ''))

/** The address of a page of the project, for links: `pageOf('/flags/7')`. */
export function pageOf(below: string): string {
  return href(inProjectPath(below))
}

/** The same for `go`. */
export function inProjectPath(below: string): string {
  return `/p/${project.value.id}${below}`
}
