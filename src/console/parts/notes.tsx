/**
 * The annotations of a page, as its charts use them. `pages/notes/notes.tsx` reads them and opens the dialog that
 * changes them.
 */
import { signal } from '@preact/signals'
import type { Shapes } from '../base/api.ts'
import { wallTime } from '../base/format.ts'
import { periodAt } from '../base/note-times.ts'

/** An annotation. */
export type Note = Shapes['Annotation']

/** The annotations that the dialog shows: those of a period, or those of a whole chart. */
export interface OpenNotes {
  readonly title: string
  /** The start of the period that a new annotation belongs to. */
  readonly start: string
  /** Returns the annotations that the dialog shows, from all annotations of the page. */
  readonly choose: (all: readonly Note[]) => readonly Note[]
}

/**
 * The annotations of the current page, and the function that opens their dialog. Null on a page that shows no
 * annotations.
 */
export const notesOfPage = signal<{
  readonly all: readonly Note[]
  readonly open: (notes: OpenNotes) => void
} | null>(null)

/** The annotations of one chart. */
interface NotesOfChart {
  /** For the index of a period, the annotations in this period. */
  readonly at: ReadonlyMap<number, readonly Note[]>
  /** Opens the dialog for the period with this index, or for the whole chart if it is null. */
  readonly open: (index: number | null) => void
}

/** Returns the annotations of a chart over time. Returns null on a page that has no annotations. */
export function notesOfChart(
  starts: readonly string[],
  labels: readonly string[],
  step: string | undefined,
): NotesOfChart | null {
  const page = notesOfPage.value
  if (page === null || step === undefined) return null
  const placeOf = ({ date_marker: marker }: Note) => (marker === null ? -1 : periodAt(starts, step, wallTime(marker)))
  const found = new Map<number, Note[]>()
  for (const note of page.all) {
    const at = placeOf(note)
    if (at !== -1) found.set(at, [...(found.get(at) ?? []), note])
  }
  return {
    at: found,
    open: (index) =>
      page.open({
        title: index === null ? 'all in this chart' : (labels[index] ?? ''),
        start: String(starts[index ?? starts.length - 1]),
        choose: (all) => all.filter((note) => (index === null ? placeOf(note) !== -1 : placeOf(note) === index)),
      }),
  }
}
