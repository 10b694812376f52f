/** The dialog in which the annotations of a chart are added, changed and deleted. */
import {
  Ask,
  act,
  Button,
  Dialog,
  Form,
  may,
  momentAt,
  type Note,
  patch,
  post,
  project,
  type Shapes,
  time,
  wallAt,
} from '../../kit.ts'

interface NotesDialogProps {
  /** The name of the period, or of the whole date range. */
  readonly title: string
  readonly notes: readonly Note[]
  /** The start of the period that a new annotation belongs to. */
  readonly start: string
  readonly close: () => void
}

const fieldsOf = (content: string, day: string) =>
  ({
    content: { label: 'Text', type: 'area', isRequired: true, value: content },
    day: { label: 'Day', type: 'date', isRequired: true, value: day },
  }) as const

/** Shows the annotations of a period, or of a whole chart. */
export function NotesDialog({ title, notes, start, close }: NotesDialogProps) {
  const canWrite = may('annotation:write')
  // If the period is an hour, the annotation gets the time of this hour. If it is a day, the annotation gets noon,
  // because noon is on the same day in most time zones.
  const clock = /\d\d:\d\d(?::\d\d)?$/.exec(start)?.[0].padEnd(8, ':00') ?? '12:00:00'
  return (
    <Dialog title={`Annotations: ${title}`} close={close}>
      <ul class="pick-list">
        {notes.map((note) => (
          <li key={note.id}>
            <span>
              <span class="quiet">{time(note.date_marker, 'day')}</span> <bdi>{note.content}</bdi>
            </span>
            {canWrite && <Controls note={note} />}
          </li>
        ))}
      </ul>
      {canWrite && (
        <Form
          action="Add annotation"
          fields={fieldsOf('', start.slice(0, 10))}
          submit={async (written) => {
            await post('project/annotations/', {}, { ...bodyOf(written, clock), scope: 'project' })
            close()
          }}
        />
      )}
    </Dialog>
  )
}

function bodyOf({ content, day }: { content: string; day: string }, clock: string) {
  return { content, date_marker: momentAt(`${day} ${clock}`, project.value.timezone) }
}

function Controls({ note: { id, content, date_marker: marker } }: { note: Note }) {
  const [day = '', clock = ''] = wallAt(marker ?? '', project.value.timezone).split(' ')
  const set = (changes: Shapes['AnnotationFields']) => patch('project/annotations/{id}/', { id }, changes)
  async function restore() {
    await set({ deleted: false })
    return 'The annotation is back.'
  }
  return (
    <span class="row">
      <Ask
        label="Edit"
        title="Edit the annotation"
        action="Save"
        fields={fieldsOf(content ?? '', day)}
        submit={(written) => set(bodyOf(written, clock))}
      />
      <Button press={() => act(set({ deleted: true }), 'The annotation is deleted.', restore)}>Delete</Button>
    </span>
  )
}
