/** The list of feature flags. It shows who gets each flag and how often programs ask for it. */
import {
  ago,
  Bar,
  Button,
  Check,
  Choice,
  Dialog,
  Empty,
  exact,
  Form,
  go,
  inProjectPath,
  List,
  may,
  Page,
  pageQuery,
  post,
  project,
  query,
  Search,
  type Shapes,
  setQuery,
  Tabs,
  useGet,
  useLoaded,
} from '../kit.ts'
import { loadGroupTypes, pluralOf } from './flag/references.ts'
import { switchFlag } from './flag/switch-flag.ts'

type Flag = Shapes['FeatureFlag']
type FlagUse = Shapes['FlagsUsage']['results'][number]

const STATES = [
  ['', 'All'],
  ['true', 'On'],
  ['false', 'Off'],
  ['STALE', 'Ready to remove'],
] as const

const ORDERS = [
  ['', 'Newest first'],
  ['-updated_at', 'Last changed first'],
  ['key', 'By key'],
  ['-active', 'On first'],
] as const

const USAGE_DAYS = 7

/** The page "Flags". */
export default function FlagsPage() {
  const asked = query.value
  const [state, search, order, tag, author] = ['state', 'search', 'order', 'tag', 'author'].map(
    (name) => asked.get(name) ?? '',
  )
  const { data } = useGet('project/feature_flags/usage/', { days: USAGE_DAYS })
  const uses = new Map(data?.results.map((use) => [use.id, use]))
  const controls = (
    <>
      <Search label="Key or description" />
      <Choice
        label="Order"
        isQuiet
        value={order ?? ''}
        options={ORDERS}
        change={(chosen) => setQuery({ order: chosen || null, offset: null })}
      />
      {may('feature_flag:write') && <NewFlag />}
    </>
  )
  return (
    <Page title="Flags" aside={controls}>
      <List
        title="Feature flags"
        route="project/feature_flags/"
        values={{
          search: search ?? '',
          ...(state !== '' && { active: state ?? '' }),
          ...(order !== '' && { order: order ?? '' }),
          ...(tag !== '' && { tags: JSON.stringify([tag]) as never }),
          ...(author !== '' && { created_by_id: Number(author) }),
          ...pageQuery(),
        }}
        aside={<Tabs label="State" tabs={STATES} parameter="state" without={['offset']} />}
        above={(flags) => <Chosen tag={tag ?? ''} author={author ?? ''} flags={flags} />}
        open={({ id }) => go(inProjectPath(`/flags/${id}`))}
        none={<NoFlag state={state ?? ''} isNarrowed={`${search}${tag}${author}` !== ''} />}
        columns={[
          ['On', (flag) => <OnOff flag={flag} />],
          ['Flag', (flag) => <Name flag={flag} />],
          ['Who gets it', (flag) => <Reach flag={flag} />],
          ['Decisions in 7 days', ({ id }) => <Decisions use={uses.get(id)} />, 'minor'],
          ['Last decision', ({ id }) => <LastAsked use={uses.get(id)} />, 'minor'],
          ['Owner', (flag) => <Owner flag={flag} />, 'minor'],
          ['Created', 'created_at', 'minor number ago'],
          ['Changed', 'updated_at', 'minor number ago'],
        ]}
      />
    </Page>
  )
}

/** Shown in place of the list if it is empty, with the reason. */
function NoFlag({ state, isNarrowed }: { state: string; isNarrowed: boolean }) {
  if (isNarrowed) return <Empty title="No flag matches the search and the filters." />
  if (state === 'STALE')
    return (
      <Empty title="No flag is ready to remove.">
        A flag appears here once it has been on for everyone for more than 30 days.
      </Empty>
    )
  if (state === 'true') return <Empty title="No flag is on." />
  if (state === 'false') return <Empty title="No flag is off." />
  return (
    <Empty title="No flags yet.">
      A flag switches a feature on for the people that you choose. Create one with “New flag”.
    </Empty>
  )
}

/** Shows the chosen tag and the chosen owner. A click on one of them removes it from the filters. */
function Chosen({ tag, author, flags }: { tag: string; author: string; flags: readonly Flag[] }) {
  const owner = flags.find((flag) => String(flag.created_by?.id) === author)?.created_by?.email ?? author
  const chips = [
    ...(tag === '' ? [] : [['tag', `Tag is ${tag}`] as const]),
    ...(author === '' ? [] : [['author', `Owner is ${owner}`] as const]),
  ]
  if (chips.length === 0) return null
  return (
    <ul class="chips" aria-label="Filters">
      {chips.map(([name, words]) => (
        <li key={name}>
          {words}
          <Button press={() => setQuery({ [name]: null, offset: null })} aria-label={`Remove the filter: ${words}`}>
            ✕
          </Button>
        </li>
      ))}
    </ul>
  )
}

function Name({ flag: { key, name, status, tags } }: { flag: Flag }) {
  return (
    <>
      <b>{key}</b> {status === 'STALE' && <span class="badge bad">ready to remove</span>}
      {name !== '' && name !== key && <div class="quiet cut">{name}</div>}
      {tags.length > 0 && (
        <div class="row">
          {tags.map((tag) => (
            <button
              key={tag}
              type="button"
              class="badge tag"
              aria-label={`Show flags with the tag ${tag}`}
              onClick={() => setQuery({ tag, offset: null })}
            >
              {tag}
            </button>
          ))}
        </div>
      )}
    </>
  )
}

function OnOff({ flag }: { flag: Flag }) {
  const isDisabled = !(flag.can_edit && may('feature_flag:write'))
  const label = `${flag.key} is on`
  const change = (is: boolean) => switchFlag(flag, is)
  return <Check isSwitch isQuiet isDisabled={isDisabled} label={label} value={flag.active} change={change} />
}

/**
 * Shows the largest percentage that a rule for everyone has, and the number of rules that apply to some persons only.
 */
function Reach({ flag: { filters } }: { flag: Flag }) {
  const rules = filters.groups ?? []
  const isForAll = ({ properties }: (typeof rules)[number]) => (properties ?? []).length === 0
  const shareOf = (chosen: typeof rules) => Math.max(0, ...chosen.map((rule) => rule.rollout_percentage ?? 100))
  const segments = rules.filter((rule) => !isForAll(rule) && (rule.rollout_percentage ?? 100) > 0)
  const everyone = shareOf(rules.filter(isForAll))
  const segment = segments.length === 1 ? `${shareOf(segments)} % of a segment` : `${segments.length} segments`
  const words = [
    ...(segments.length > 0 && everyone < 100 ? [segment] : []),
    ...(everyone === 100 ? ['everyone'] : everyone > 0 ? [`${everyone} % of everyone`] : []),
  ]
  const variants = filters.multivariate?.variants?.length ?? 0
  return (
    <Bar share={shareOf(rules) / 100}>
      {words.length === 0 ? 'nobody' : words.join(', ')}
      {variants > 0 && `, ${variants} variants`}
    </Bar>
  )
}

const SPARK = { width: 70, height: 20 }

/** Shows how often a flag was decided in the last days, with a small line chart of the days. */
function Decisions({ use }: { use: FlagUse | undefined }) {
  if (use === undefined || use.count === 0) return <span class="quiet">none</span>
  const highest = Math.max(1, ...use.days)
  const step = SPARK.width / Math.max(1, use.days.length - 1)
  const points = use.days.map(
    (count, at) => `${at * step},${SPARK.height - 1 - (count / highest) * (SPARK.height - 2)}`,
  )
  return (
    <span class="row">
      <svg class="sparkline tiny" aria-hidden="true" viewBox={`0 0 ${SPARK.width} ${SPARK.height}`}>
        <polyline points={points.join(' ')} />
      </svg>
      {exact(use.count)}
    </span>
  )
}

function LastAsked({ use }: { use: FlagUse | undefined }) {
  return <time>{ago(use?.last_evaluated_at)}</time>
}

function Owner({ flag: { created_by: owner } }: { flag: Flag }) {
  if (owner === null) return <span class="quiet">–</span>
  const choose = () => setQuery({ author: String(owner.id), offset: null })
  return (
    <button type="button" class="link" onClick={choose}>
      {owner.first_name || owner.email}
    </button>
  )
}

/** The button and the dialog that create a flag. A parameter of the URL opens the dialog. */
function NewFlag() {
  const close = () => setQuery({ new: null }, { replace: true })
  return (
    <>
      <button type="button" class="primary" onClick={() => setQuery({ new: '1' })}>
        New flag
      </button>
      {query.value.has('new') && (
        <Dialog title="New flag" close={close}>
          <NewFlagForm />
        </Dialog>
      )}
    </>
  )
}

function NewFlagForm() {
  const { data: types = [] } = useLoaded(`group types ${project.value.id}`, loadGroupTypes)
  const subjects = [
    ['', 'people'],
    ...types.map((type) => [String(type.group_type_index), pluralOf(type)] as const),
  ] as const
  return (
    <Form
      action="Create flag"
      fields={{
        key: { label: 'Key', isRequired: true, hint: 'The name in your code: letters, digits, hyphens, underscores.' },
        name: { label: 'Description' },
        subject: { kind: 'choice', label: 'Decides for', options: subjects, isShown: () => types.length > 0 },
      }}
      submit={async ({ key, name, subject }) => {
        const filters = {
          groups: [{ properties: [], rollout_percentage: 0 }],
          ...(subject !== '' && { aggregation_group_type_index: Number(subject) }),
        }
        const { id } = await post('project/feature_flags/', {}, { key, name, active: false, filters })
        go(inProjectPath(`/flags/${id}?tab=edit`))
      }}
    >
      <p class="quiet">The flag starts switched off, with one rule for 0 %. You set its rules on the next page.</p>
    </Form>
  )
}
