/** The annotations of a page, for its charts. `pages/notes/notes.tsx` reads them and has the dialog that changes them. */
import { signal } from '@preact/signals'
import type { Shapes } from '../base/api.ts'
import { wallTime } from '../base/format.ts'
import { periodAt } from '../base/note-times.ts'

/** An annotation. */
export type Note = Shapes['Annotation']

/** The annotations of a period, or of a whole chart, in the dialog. */
export interface OpenNotes {
  readonly title: string
  /** The start of the period of a new annotation. */
  readonly start: string
  /** Returns those of all annotations that belong here. */
  readonly choose: (all: readonly Note[]) => readonly Note[]
}

/** The annotations of a page. Null on pages without them. */
export const notesOfPage = signal<{
  readonly all: readonly Note[]
  readonly open: (notes: OpenNotes) => void
} | null>(null)

/** The annotations of a chart. */
interface NotesOfChart {
  /** The annotations by the position of their period. */
  readonly at: ReadonlyMap<number, readonly Note[]>
  /** Opens the dialog for a period, or for the whole chart. */
  readonly open: (index: number | null) => void
}

/** Returns the annotations of a chart over time, or null on pages without annotations. */
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
