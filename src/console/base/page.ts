/** The parts of the URL that identify the current page, and the URLs of pages of the project. */
import { computed } from '@preact/signals'
import { href, path } from './address.ts'
import { project } from './session.ts'

/** The ID in the URL of the page: `7` for `/p/1/flags/7`. Empty if the page is a list. */
export const pageId = computed(() => decodeURIComponent(path.value.split('/')[4] ?? ''))

/** The second ID in the URL of the page: `acme` for `/p/1/groups/0/acme`. Empty if there is none. */
export const subId = computed(() => decodeURIComponent(path.value.split('/')[5] ?? ''))

/** Returns the URL of a page of the project, for a link: `pageOf('/flags/7')`. */
export function pageOf(below: string): string {
  return href(inProjectPath(below))
}

/** Returns the path of a page of the project, as `go` takes it. */
export function inProjectPath(below: string): string {
  return `/p/${project.value.id}${below}`
}
