/** Which saved things a list shows, and in which order. Source: docs/compatibility/saved.md, "Insights". */
import type { PageRequest } from '../../base/pages.ts'
import type { Annotation, AnnotationFields, Dashboard, Insight } from './saved.ts'

/** A list of a project that is asked for. */
export interface ListRequest<Filter> {
  readonly projectId: number
  readonly filter: Filter
  readonly page: PageRequest
}

/** What is asked of insights; absent: whatever it is. */
export interface InsightFilter {
  readonly saved?: boolean
  readonly favorited?: boolean
  readonly createdById?: number
  readonly short_id?: string
  readonly search?: string
}

/** What is asked of annotations; absent: whatever it is, and none that are deleted. */
export interface AnnotationFilter {
  /** Made later, and earlier, than that. */
  readonly afterMs?: number
  readonly beforeMs?: number
  readonly dashboard_item?: number
  readonly scope?: AnnotationFields['scope']
  readonly isDeleted?: boolean
  /** True: not about one insight; false: about one. */
  readonly isForAll?: boolean
  readonly search?: string
}

/** What is asked of dashboards; absent: whatever it is. */
export interface DashboardFilter {
  readonly search?: string
}

/** The insights of a list, newest first. */
export function listedInsights(insights: readonly Insight[], filter: InsightFilter): Insight[] {
  const { createdById, search, ...exact } = filter
  return insights
    .filter(
      ({ fields, isDeleted, createdById: author }) =>
        !isDeleted &&
        hasAll(fields, exact) &&
        (createdById ?? author) === author &&
        isFound(search, fields.name, fields.derived_name, fields.description, ...fields.tags),
    )
    .sort(newestFirst)
}

/** The dashboards of a list: pinned ones first, then by name. */
export function listedDashboards(
  dashboards: readonly Dashboard[],
  { search }: DashboardFilter,
): Dashboard[] {
  return dashboards
    .filter(({ fields, isDeleted }) => !isDeleted && isFound(search, fields.name, ...fields.tags))
    .sort(
      ({ fields: a, id }, { fields: b, id: other }) =>
        Number(b.pinned) - Number(a.pinned) || compareTexts(a.name, b.name) || id - other,
    )
}

/** The annotations of a list: by the moment that they are about, the latest first, those without one last. */
export function listedAnnotations(
  annotations: readonly Annotation[],
  { afterMs, beforeMs, isDeleted = false, isForAll, search, ...exact }: AnnotationFilter,
): Annotation[] {
  return annotations
    .filter(
      (annotation) =>
        annotation.isDeleted === isDeleted &&
        hasAll(annotation.fields, exact) &&
        annotation.createdAtMs > (afterMs ?? Number.NEGATIVE_INFINITY) &&
        annotation.createdAtMs < (beforeMs ?? Number.POSITIVE_INFINITY) &&
        isForAll !== (annotation.fields.scope === 'dashboard_item') &&
        isFound(search, annotation.fields.content),
    )
    .sort((a, b) => markerMs(b) - markerMs(a) || newestFirst(a, b))
}

/** Whether each member that is asked for has its value. */
function hasAll<Fields extends object>(fields: Fields, wanted: Partial<Fields>): boolean {
  return Object.entries(wanted).every(([name, value]) => fields[name as keyof Fields] === value)
}

/** Whether one of the texts holds what is searched for, ignoring case. */
function isFound(search: string | undefined, ...texts: readonly (string | null)[]): boolean {
  if (search === undefined) return true
  const wanted = search.toLowerCase()
  return texts.some((text) => text?.toLowerCase().includes(wanted))
}

function newestFirst(a: { readonly id: number }, b: { readonly id: number }): number {
  return b.id - a.id
}

function compareTexts(a: string | null, b: string | null): number {
  const [left, right] = [a ?? '', b ?? '']
  return left < right ? -1 : Number(left > right)
}

/** Moments before 1970 stand before the annotations that have none. */
function markerMs({ fields: { date_marker: text } }: Annotation): number {
  return text === null ? -Number.MAX_SAFE_INTEGER : Date.parse(text)
}
