/** The page of a feature flag: an overview, its fields, a test with one user, its usage and its history. */
import { useState } from 'preact/hooks'
import {
  Ask,
  ago,
  Button,
  Check,
  Command,
  Dialog,
  DialogButton,
  FileButton,
  Form,
  Got,
  go,
  inProjectPath,
  may,
  Page,
  pageId,
  pageOf,
  patch,
  post,
  project,
  setQuery,
  Tabs,
  tabOf,
  time,
} from '../kit.ts'
import { codeFor } from './flag/code.ts'
import { draftOf, type Flag, problemOf } from './flag/draft.ts'
import { Editor } from './flag/editor.tsx'
import { Explain } from './flag/explain.tsx'
import { History } from './flag/history.tsx'
import { Overview } from './flag/overview.tsx'
import { type FlagReferences, useReferences } from './flag/references.ts'
import { Review } from './flag/review.tsx'
import { FlagSchedule } from './flag/schedule.tsx'
import { switchFlag } from './flag/switch-flag.ts'
import { Usage } from './flag/usage.tsx'
import { type Editing, useDraft } from './flag/use-draft.ts'

const TABS = [
  ['', 'Overview'],
  ['edit', 'Edit'],
  ['explain', 'Test with a user'],
  ['schedule', 'Schedule'],
  ['usage', 'Usage'],
  ['history', 'History'],
] as const

const VIEWS = {
  '': Overview,
  edit: Edit,
  explain: Explain,
  schedule: FlagSchedule,
  usage: Usage,
  history: History,
}

/** The page "Flag". */
export default function FlagPage() {
  return (
    <Got route="project/feature_flags/{id}/" values={{ id: Number(pageId.value) }}>
      {(flag) => <FlagView key={flag.version} flag={flag} />}
    </Got>
  )
}

function isEditable(flag: Flag): boolean {
  return may('feature_flag:write') && flag.can_edit
}

function FlagView({ flag }: { flag: Flag }) {
  const references = useReferences(flag)
  const editing = useDraft(flag)
  const tabs = TABS.filter(
    ([one]) => (one !== 'history' || may('activity_log:read')) && (one !== 'edit' || isEditable(flag)),
  )
  const View = VIEWS[tabOf(tabs, 'tab')]
  return (
    <Page title={flag.key} aside={<Actions flag={flag} discard={editing.discard} />}>
      <About flag={flag} />
      <Tabs label="Flag" tabs={tabs} parameter="tab" without={['who', 'groups']} />
      <div class="below-tabs">
        <View flag={flag} references={references} editing={editing} />
      </div>
      {editing.leave && <Leave flag={flag} leave={editing.leave} stay={editing.stay} discard={editing.discard} />}
    </Page>
  )
}

function About({ flag }: { flag: Flag }) {
  const { key, name, tags, created_by: author, created_at: at, updated_at: changedAt, status, deleted } = flag
  const { experiment_set: experiments } = flag
  return (
    <p class="about row">
      {deleted && <span class="badge bad">Deleted</span>}
      {status === 'STALE' && <span class="badge bad">Ready to remove: on for everyone for more than 30 days</span>}
      {name !== '' && name !== key && <span>{name}</span>}
      {tags.map((tag) => (
        <span key={tag} class="badge">
          {tag}
        </span>
      ))}
      {may('experiment:read') &&
        experiments.map((id) => (
          <a key={id} href={pageOf(`/experiments/${id}`)}>
            Experiment {id}
          </a>
        ))}
      <span class="quiet">
        Created {time(at, 'day')} {author !== null && `by ${author.email || author.first_name}`}, changed{' '}
        {ago(changedAt)}
      </span>
    </p>
  )
}

/** The menu with actions for the flag. `discard` drops its unsaved changes. */
function Actions({ flag, discard }: { flag: Flag; discard: () => void }) {
  const { key, name, active, tags, filters } = flag
  const text = () => JSON.stringify({ key, name, active, tags, filters }, null, 2)
  return (
    <>
      <Check
        isSwitch
        label={active ? 'On' : 'Off'}
        isDisabled={!isEditable(flag)}
        value={active}
        change={(is) => switchFlag(flag, is)}
      />
      <details class="flag-menu">
        <summary>More</summary>
        <div>
          {may('feature_flag:write') && <Duplicate flag={flag} />}
          <DialogButton label="Copy code" title={`Code that asks for ${key}`}>
            <Code flag={flag} />
          </DialogButton>
          <FileButton label="Save as JSON" name={`${key}.json`} type="application/json" text={text} />
          {isEditable(flag) && <DeleteFlag flag={flag} discard={discard} />}
        </div>
      </details>
    </>
  )
}

function Code({ flag }: { flag: Flag }) {
  return codeFor(draftOf(flag), location.origin, project.value.api_token).map(([language, code]) => (
    <section key={language} class="code">
      <h3>{language}</h3>
      <Command text={code} />
    </section>
  ))
}

function Duplicate({ flag }: { flag: Flag }) {
  return (
    <Ask
      label="Duplicate"
      title={`Duplicate ${flag.key}`}
      fields={{
        key: {
          label: 'Key of the copy',
          value: `${flag.key}-copy`,
          isRequired: true,
          hint: 'The copy is switched off.',
        },
      }}
      submit={async ({ key }) => {
        const { name, tags, filters, ensure_experience_continuity: continuity = false } = flag
        const body = { key, name, tags, filters, ensure_experience_continuity: continuity, active: false }
        const { id } = await post('project/feature_flags/', {}, body)
        go(inProjectPath(`/flags/${id}?tab=edit`))
      }}
    />
  )
}

function DeleteFlag({ flag: { id, key }, discard }: { flag: Flag; discard: () => void }) {
  async function submit() {
    await patch('project/feature_flags/{id}/', { id }, { deleted: true })
    discard()
    go(inProjectPath('/flags'))
  }
  return (
    <Ask label="Delete" action="Delete the flag" title={`Delete ${key}?`} submit={submit}>
      Code that asks for this flag gets no value, as for a flag that does not exist. The history of the flag stays.
    </Ask>
  )
}

interface EditProps {
  readonly flag: Flag
  readonly references: FlagReferences
  readonly editing: Editing
}

function Edit({ flag: current, references, editing }: EditProps) {
  const { flag, draft, set, isChanged, discard } = editing
  const [isReviewed, setReviewed] = useState(false)
  const problem = problemOf(draft)
  const canSave = isChanged && problem === null
  function saved() {
    discard()
    setReviewed(false)
    setQuery({ tab: null })
  }
  return (
    <>
      <Form
        action={null}
        submit={async () => {
          setReviewed(canSave)
          // The form is not sent. The review opens instead and saves the changes.
          return false
        }}
      >
        {flag.version < current.version && (
          <p class="notice">
            Version {current.version} was saved after you began to edit version {flag.version}. Your changes are kept.
          </p>
        )}
        <Editor draft={draft} set={set} references={references} />
        <div class="save-bar row">
          <button type="submit" class="primary" disabled={!canSave}>
            Review and save
          </button>
          {!flag.active && (
            <Check
              label="Switch the flag on with this change"
              value={draft.active}
              change={(active) => set({ active })}
            />
          )}
          {isChanged && <Button press={discard}>Discard changes</Button>}
          {problem === null ? (
            <span class="quiet">{isChanged ? '● Not saved yet' : 'No changes'}</span>
          ) : (
            <span class="worse">{problem}</span>
          )}
        </div>
      </Form>
      {isReviewed && (
        <Review flag={flag} draft={draft} saved={saved} names={references.names} close={() => setReviewed(false)} />
      )}
    </>
  )
}

interface LeaveProps extends Pick<Editing, 'stay' | 'discard'> {
  readonly flag: Flag
  readonly leave: () => void
}

/** The dialog that asks the reader before a page with unsaved changes is left. */
function Leave({ flag, leave, stay, discard }: LeaveProps) {
  return (
    <Dialog title="Leave without saving?" close={stay}>
      <p>
        Your changes to {flag.key} are not saved. This tab keeps them until you save them, discard them or close it.
      </p>
      <div class="row">
        <button type="button" class="primary" onClick={stay}>
          Keep editing
        </button>
        <button type="button" onClick={leave}>
          Leave and keep the changes
        </button>
        <button
          type="button"
          class="danger"
          onClick={() => {
            discard()
            leave()
          }}
        >
          Discard changes
        </button>
      </div>
    </Dialog>
  )
}
