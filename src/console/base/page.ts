/** The parts of the URL that identify the current page, and the URLs of pages of the project. */
import { computed } from '@preact/signals'
import { href, path } from './address.ts'
import { project } from './session.ts'

/** The ID of the object on the page: `7` for `/p/1/flags/7`, and empty for lists. */
export const pageId = computed(() => decodeURIComponent(path.value.split('/')[4] ?? ''))

/** The second ID of the object on the page: `acme` for `/p/1/groups/0/acme`, and empty otherwise. */
export const subId = computed(() => decodeURIComponent(path.value.split('/')[5] ?? ''))

/** Returns the URL of a page of the project, for a link: `pageOf('/flags/7')`. */
export function pageOf(below: string): string {
  return href(inProjectPath(below))
}

/** Returns the path of a page of the project, for `go`. */
export function inProjectPath(below: string): string {
  return `/p/${project.value.id}${below}`
}
