/** Reads the annotations of a page once for all its charts, and opens the dialog that changes them. */
import { useEffect, useState } from 'preact/hooks'
import { may, notesOfPage, type OpenNotes, useGet } from '../../kit.ts'
import { NotesDialog } from './dialog.tsx'

const NOTES_MAX = 1000

interface NotesProps {
  /**
   * The number of the dashboard that the page shows. The annotations of this dashboard are shown in addition to those
   * of the project. `insight` does the same for an insight.
   */
  readonly dashboard?: number
  readonly insight?: number | undefined
}

/** Makes the annotations of the project available to the charts of the page. */
export function Notes(props: NotesProps) {
  return may('annotation:read') ? <Loaded {...props} /> : null
}

function Loaded({ dashboard, insight }: NotesProps) {
  const { data } = useGet('project/annotations/', { limit: NOTES_MAX })
  const [opened, open] = useState<OpenNotes | null>(null)
  useEffect(() => {
    const all = data?.results.filter(({ scope, dashboard_id: board, dashboard_item: item }) => {
      if (scope === 'dashboard') return board === dashboard
      return scope !== 'dashboard_item' || (item !== null && item === insight)
    })
    notesOfPage.value = all ? { all, open } : null
  }, [data, dashboard, insight])
  useEffect(
    () => () => {
      notesOfPage.value = null
    },
    [],
  )
  if (opened === null) return null
  return <NotesDialog {...opened} notes={opened.choose(notesOfPage.value?.all ?? [])} close={() => open(null)} />
}
