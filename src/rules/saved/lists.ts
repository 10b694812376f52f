/** Selects and orders the saved objects of a list. Source: docs/compatibility/saved.md, "Insights". */
import type { PageRequest } from '../../base/pages.ts'
import type { Annotation, AnnotationFields, Dashboard, Insight } from './saved.ts'

/** A request for a list of a project. */
export interface ListRequest<Filter> {
  readonly projectId: number
  readonly filter: Filter
  readonly page: PageRequest
}

/** The filter of a list of insights. An absent member accepts any value. */
export interface InsightFilter {
  readonly saved?: boolean
  readonly favorited?: boolean
  readonly createdById?: number
  readonly short_id?: string
  readonly search?: string
}

/**
 * The filter of a list of annotations. An absent member accepts any value, except that an absent `isDeleted` leaves out
 * deleted annotations.
 */
export interface AnnotationFilter {
  /** Selects annotations that were created after `afterMs` and before `beforeMs`, in milliseconds since 1970. */
  readonly afterMs?: number
  readonly beforeMs?: number
  readonly dashboard_item?: number
  readonly scope?: AnnotationFields['scope']
  readonly isDeleted?: boolean
  /**
   * If true, selects the annotations that belong to a dashboard, a project or the organization. If false, selects the
   * annotations that belong to a single insight.
   */
  readonly isForAll?: boolean
  readonly search?: string
}

/** The filter of a list of dashboards. An absent member accepts any value. */
export interface DashboardFilter {
  readonly search?: string
}

/** Returns the insights of a list, newest first. */
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

/** Returns the dashboards of a list. Pinned ones come first, and each part is ordered by name. */
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

/**
 * Returns the annotations of a list, ordered by the moment that they mark, latest first. Annotations that mark no
 * moment come last.
 */
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

/** Returns whether `fields` has the value of each member of `wanted`. */
function hasAll<Fields extends object>(fields: Fields, wanted: Partial<Fields>): boolean {
  return Object.entries(wanted).every(([name, value]) => fields[name as keyof Fields] === value)
}

/**
 * Returns whether one of the texts contains the search text, ignoring case. Returns true if there is no search text.
 */
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

/**
 * Returns the moment that an annotation marks, in milliseconds since 1970. If the annotation marks no moment, the
 * result is less than every moment.
 */
function markerMs({ fields: { date_marker: text } }: Annotation): number {
  return text === null ? -Number.MAX_SAFE_INTEGER : Date.parse(text)
}
