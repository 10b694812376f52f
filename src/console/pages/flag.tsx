/** A feature flag: its conditions, a rehearsal of changes, an explanation for one user, its usage and its history. */
import { useState } from 'preact/hooks'
import {
  ApiError,
  Ask,
  Card,
  Dialog,
  DialogButton,
  exact,
  FileButton,
  Form,
  Got,
  get,
  go,
  inProjectPath,
  may,
  Page,
  pageId,
  patch,
  plain,
  post,
  Shown,
  say,
  Table,
  Tabs,
  tabOf,
  useLoaded,
} from '../kit.ts'
import { changesOf, type Draft, draftOf, editedOf, type Flag, filtersOf, problemOf, sentenceOf } from './flag/draft.ts'
import { Editor } from './flag/editor.tsx'
import { Explain } from './flag/explain.tsx'
import { History } from './flag/history.tsx'
import { Usage } from './flag/usage.tsx'

const TABS = [
  ['', 'Edit'],
  ['explain', 'Who sees it?'],
  ['usage', 'Usage'],
  ['history', 'History'],
] as const

const VIEWS = { '': Edit, explain: Explain, usage: Usage, history: History }

/** The page "Flag". */
export default function FlagPage() {
  const tabs = TABS.filter(([one]) => one !== 'history' || may('activity_log:read'))
  const View = VIEWS[tabOf(tabs, 'tab')]
  return (
    <Got route="project/feature_flags/{id}/" values={{ id: Number(pageId.value) }}>
      {(flag) => (
        <Page title={flag.key} aside={<AsFile flag={flag} />}>
          <Tabs label="Flag" tabs={tabs} parameter="tab" />
          <div class="below-tabs">
            <View key={flag.version} flag={flag} />
          </div>
        </Page>
      )}
    </Got>
  )
}

function AsFile({ flag: { key, name, active, tags, filters } }: { flag: Flag }) {
  const text = () => JSON.stringify({ key, name, active, tags, filters }, null, 2)
  return <FileButton label="As a file" name={`${key}.json`} type="application/json" text={text} />
}

function Edit({ flag }: { flag: Flag }) {
  const [draft, setDraft] = useState(() => draftOf(flag))
  const [conflict, setConflict] = useState<Flag | null>(null)
  const problem = problemOf(draft)
  async function save(base = flag) {
    if (problem !== null) throw new ApiError(0, { code: 'invalid', detail: problem })
    try {
      await patch('project/feature_flags/{id}/', { id: flag.id }, changesOf(base, editedOf(flag, draft)))
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error
      setConflict(await get('project/feature_flags/{id}/', { id: flag.id }))
      return false
    }
    say(`${draft.key} is saved, and decides so from now on.`)
    setConflict(null)
    return true
  }
  if (!(may('feature_flag:write') && flag.can_edit)) return <ReadOnly flag={flag} draft={draft} />
  return (
    <>
      <Form action="Save" submit={() => save()}>
        <Editor
          draft={draft}
          set={(changes) => setDraft({ ...draft, ...changes })}
          groupType={flag.filters.aggregation_group_type_index ?? null}
        />
        <div class="row">
          {problem === null ? (
            <DialogButton label="Rehearse: who would see a change?" title="If this were saved" side>
              <Rehearsed flag={flag} draft={draft} />
            </DialogButton>
          ) : (
            <span class="worse">{problem}</span>
          )}
          <DeleteFlag flag={flag} />
        </div>
      </Form>
      {conflict && (
        <Conflict
          theirs={conflict}
          mine={editedOf(flag, draft)}
          close={() => setConflict(null)}
          overwrite={() => save(conflict)}
        />
      )}
    </>
  )
}

function ReadOnly({ flag, draft }: { flag: Flag; draft: Draft }) {
  const who = flag.filters.aggregation_group_type_index == null ? 'persons' : 'groups'
  return (
    <Card title={draft.active ? 'On' : 'Off'}>
      <ol>
        {draft.conditions.map((condition, at) => (
          <li key={`${at} of ${draft.conditions.length}`}>{sentenceOf(condition, who)}</li>
        ))}
      </ol>
      <p>{draft.variants.map(({ key, rollout_percentage: share }) => `${key} ${share} %`).join(', ')}</p>
    </Card>
  )
}

/** Shows whose value a change would flip, before it is saved. */
function Rehearsed({ flag, draft }: { flag: Flag; draft: Draft }) {
  const body = { id: flag.id, active: draft.active, filters: filtersOf(flag, draft) }
  const loaded = useLoaded(`rehearse ${JSON.stringify(body)}`, (signal) =>
    post('project/feature_flags/rehearse/', {}, body, signal),
  )
  const rule = (at: number | null) => (at === null ? '' : ` (condition ${at + 1})`)
  return (
    <Shown of={loaded}>
      {({ changed, sampled, total, flips, examples }) => (
        <>
          <p>
            <b>{exact(changed)}</b> of {exact(sampled)} {sampled < total && `(a sample of ${exact(total)}) `}would get
            another value.
          </p>
          <Table
            label="Changes"
            rows={flips}
            none="Nobody."
            columns={[
              ['From', ({ from, from_condition: at }) => plain(from) + rule(at)],
              ['To', ({ to, to_condition: at }) => plain(to) + rule(at)],
              ['How many', 'count', 'count'],
            ]}
          />
          <h3>For example</h3>
          <Table
            label="Examples"
            rows={examples}
            none="Nobody."
            columns={[
              ['Who', ({ distinct_id: id, group_key: key }) => id ?? key ?? ''],
              ['From', 'from'],
              ['To', 'to'],
            ]}
          />
        </>
      )}
    </Shown>
  )
}

function DeleteFlag({ flag: { id, key } }: { flag: Flag }) {
  async function submit() {
    await patch('project/feature_flags/{id}/', { id }, { deleted: true })
    go(inProjectPath('/flags'))
  }
  return (
    <Ask label="Delete the flag" title={`Delete ${key}?`} submit={submit}>
      Code that asks for it gets nothing, as for a flag that never was. Its history stays.
    </Ask>
  )
}

interface ConflictProps {
  readonly theirs: Flag
  readonly mine: Partial<Draft>
  readonly close: () => void
  readonly overwrite: () => Promise<unknown>
}

/**
 * Shows the differences after another user has saved the flag in the meantime, and lets the reader choose. Nothing that
 * was typed is lost.
 */
function Conflict({ theirs, mine, close, overwrite }: ConflictProps) {
  const other = draftOf(theirs)
  const names = (Object.keys(mine) as (keyof Draft)[]).filter((name) => plain(mine[name]) !== plain(other[name]))
  const version = `${theirs.last_modified_by?.email ?? 'Somebody'} saved version ${theirs.version}`
  return (
    <Dialog title="Somebody else changed this flag" close={close}>
      <Form action="Save mine over it" submit={overwrite}>
        <p>{version} while you were editing. Nothing of yours is lost, and what you did not change stays theirs.</p>
        <Table
          label="Differences"
          rows={names}
          none="Both versions say the same."
          columns={[
            ['What', (name) => name],
            ['Theirs', (name) => other[name], 'code'],
            ['Yours', (name) => mine[name], 'code'],
          ]}
        />
      </Form>
      <Form action="Take theirs" submit={async () => close()} />
    </Dialog>
  )
}
