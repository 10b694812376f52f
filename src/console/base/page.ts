/** What the address says of the page that is shown. */
import { computed } from '@preact/signals'
import { findPage } from '../routes.ts'
import { href, path } from './address.ts'
import { project } from './session.ts'

/** The page of the address, or null. */
export const found = computed(() => findPage(path.value))

/** A segment of the address: of `/p/1/flags/7` it is `id` 7. */
export function segment(name: string): string {
  return found.value?.segments[name] ?? ''
}

/** The address of a page of the project, for links: `pageOf('/flags/7')`. */
export function pageOf(below: string): string {
  return href(inProjectPath(below))
}

/** The same for `go`. */
export function inProjectPath(below: string): string {
  return `/p/${project.value.id}${below}`
}
