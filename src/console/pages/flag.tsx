/** A flag: who gets what, who would get something else after a change, who sees it and why. */

import { useState } from 'preact/hooks'
import {
  ApiError,
  Card,
  ConfirmButton,
  Dialog,
  exact,
  Form,
  get,
  go,
  href,
  inProjectPath,
  may,
  Page,
  pageId,
  patch,
  plain,
  post,
  query,
  Shown,
  saveFile,
  say,
  Table,
  Tabs,
  useGet,
  useLoaded,
  withQuery,
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

/** The page. */
export default function FlagPage() {
  const loaded = useGet('project/feature_flags/{id}/', { id: Number(pageId.value) })
  const tab = query.value.get('tab') ?? ''
  const tabs = TABS.filter(([one]) => one !== 'history' || may('activity_log:read'))
  return (
    <Shown of={loaded}>
      {(flag) => (
        <Page title={flag.key} aside={<FileButton flag={flag} />}>
          <Tabs label="Flag" tabs={tabs} chosen={tab} to={(next) => href(withQuery({ tab: next }))} />
          <div class="below-tabs">
            {tab === 'explain' ? <Explain flag={flag} /> : null}
            {tab === 'usage' ? <Usage flag={flag} /> : null}
            {tab === 'history' && may('activity_log:read') ? <History flag={flag} reload={loaded.reload} /> : null}
            {tab === '' ? <Edit key={flag.version} flag={flag} reload={loaded.reload} /> : null}
          </div>
        </Page>
      )}
    </Shown>
  )
}

function FileButton({ flag: { key, name, active, tags, filters } }: { readonly flag: Flag }) {
  const text = () => JSON.stringify({ key, name, active, tags, filters }, null, 2)
  return (
    <button type="button" class="small" onClick={() => saveFile(`${key}.json`, text(), 'application/json')}>
      As a file
    </button>
  )
}

function Edit({ flag, reload }: { readonly flag: Flag; readonly reload: () => void }) {
  const [draft, setDraft] = useState(() => draftOf(flag))
  const [conflict, setConflict] = useState<Flag | null>(null)
  const canWrite = may('feature_flag:write') && flag.can_edit
  const problem = problemOf(draft)
  async function save(base = flag) {
    try {
      await patch('project/feature_flags/{id}/', { id: flag.id }, changesOf(base, editedOf(flag, draft)))
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error
      setConflict(await get('project/feature_flags/{id}/', { id: flag.id }))
      return
    }
    say(`${draft.key} is saved, and decides so from now on.`)
    setConflict(null)
    reload()
  }
  if (!canWrite) return <ReadOnly flag={flag} draft={draft} />
  return (
    <>
      <Form
        action="Save"
        submit={() =>
          problem === null ? save() : Promise.reject(new ApiError(0, { code: 'invalid', detail: problem }))
        }
      >
        <Editor
          draft={draft}
          set={(changes) => setDraft({ ...draft, ...changes })}
          groupType={flag.filters.aggregation_group_type_index ?? null}
        />
        {problem === null ? <Rehearsal flag={flag} draft={draft} /> : <p class="worse">{problem}</p>}
        <p class="row">
          <DeleteFlag flag={flag} />
        </p>
      </Form>
      {conflict === null ? null : (
        <Conflict
          theirs={conflict}
          mine={editedOf(flag, draft)}
          close={() => setConflict(null)}
          overwrite={() => save(conflict)}
          take={reload}
        />
      )}
    </>
  )
}

function ReadOnly({ flag, draft }: { readonly flag: Flag; readonly draft: Draft }) {
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

/** Whose value a change would flip, asked before it is saved. */
function Rehearsal({ flag, draft }: { readonly flag: Flag; readonly draft: Draft }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <p>
      <button type="button" onClick={() => setOpen(true)}>
        Rehearse: who would see a change?
      </button>
      {isOpen ? (
        <Dialog title="If this were saved" close={() => setOpen(false)} side>
          <Rehearsed flag={flag} draft={draft} />
        </Dialog>
      ) : null}
    </p>
  )
}

function Rehearsed({ flag, draft }: { readonly flag: Flag; readonly draft: Draft }) {
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
            <b>{exact(changed)}</b> of {exact(sampled)} {sampled < total ? `(a sample of ${exact(total)}) ` : ''}would
            get another value.
          </p>
          <Table
            label="Changes"
            rows={flips}
            keyOf={(_, index) => index}
            none="Nobody."
            columns={[
              { head: 'From', cell: ({ from, from_condition: at }) => plain(from) + rule(at) },
              { head: 'To', cell: ({ to, to_condition: at }) => plain(to) + rule(at) },
              { head: 'How many', isNumber: true, cell: ({ count }) => exact(count) },
            ]}
          />
          <h3>For example</h3>
          <Table
            label="Examples"
            rows={examples}
            keyOf={(_, index) => index}
            none="Nobody."
            columns={[
              { head: 'Who', cell: ({ distinct_id: id, group_key: key }) => id ?? key ?? '' },
              { head: 'From', cell: ({ from }) => plain(from) },
              { head: 'To', cell: ({ to }) => plain(to) },
            ]}
          />
        </>
      )}
    </Shown>
  )
}

function DeleteFlag({ flag: { id, key } }: { readonly flag: Flag }) {
  return (
    <ConfirmButton
      label="Delete the flag"
      title={`Delete ${key}?`}
      submit={async () => {
        await patch('project/feature_flags/{id}/', { id }, { deleted: true })
        go(inProjectPath('/flags'))
      }}
    >
      <p>Code that asks for it gets nothing, as for a flag that never was. Its history stays.</p>
    </ConfirmButton>
  )
}

/** Somebody else saved meanwhile: what both say, and a choice. What was typed is not lost. */
function Conflict({
  theirs,
  mine,
  close,
  overwrite,
  take,
}: {
  readonly theirs: Flag
  readonly mine: Partial<Draft>
  readonly close: () => void
  readonly overwrite: () => Promise<void>
  readonly take: () => void
}) {
  const other = draftOf(theirs)
  const names = (Object.keys(mine) as (keyof Draft)[]).filter(
    (name) => JSON.stringify(mine[name]) !== JSON.stringify(other[name]),
  )
  return (
    <Dialog title="Somebody else changed this flag" close={close}>
      <Form action="Save mine over it" submit={overwrite}>
        <p>
          {theirs.last_modified_by?.email ?? 'Somebody'} saved version {theirs.version} while you were editing. Nothing
          of yours is lost, and what you did not change stays theirs.
        </p>
        <Table
          label="Differences"
          rows={names}
          keyOf={(name) => name}
          none="Both versions say the same."
          columns={[
            { head: 'What', cell: (name) => name },
            { head: 'Theirs', cell: (name) => <code>{plain(other[name])}</code> },
            { head: 'Yours', cell: (name) => <code>{plain(mine[name])}</code> },
          ]}
        />
        <button
          type="button"
          onClick={() => {
            close()
            take()
          }}
        >
          Take theirs
        </button>
      </Form>
    </Dialog>
  )
}
