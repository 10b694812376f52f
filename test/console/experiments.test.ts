/**
 * An experiment in Chromium, from the form to the shipped variant: the page says who is ahead, how sure that is, and
 * what is wrong, every button says what happens before it happens, and its persons become a cohort.
 *
 * @lane browser
 */
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, capture } from '../fixtures/console-data.ts'
import { PROJECT_KEY } from '../fixtures/daemon.ts'
import { jsonOf, postJson } from '../fixtures/exact-client.ts'

const { daemon, browser } = await startConsole(t)
const PERSONS = 2000
const KEY = 'short-form'
/** Of 100 persons of each variant, so many sign up. */
const RATES = { control: 20, short: 40 }

interface Experiment {
  readonly id: number
  readonly status: string
  readonly conclusion: string | null
  readonly feature_flag: { readonly id: number; readonly active: boolean }
}

async function stored(): Promise<Experiment> {
  const { results } = await askApi<{ results: Experiment[] }>(
    daemon,
    'GET',
    'projects/1/experiments/',
  )
  const [first] = results
  if (first === undefined) throw new Error('there is no experiment')
  return first
}

async function variantOf(who: string): Promise<unknown> {
  const body = { token: PROJECT_KEY, distinct_id: who, flag_keys: [KEY] }
  const answer = jsonOf(await postJson(`${daemon.url}/flags/?v=2`, body))
  const { flags } = answer as { flags: Record<string, { enabled: boolean; variant?: string }> }
  return flags[KEY]?.enabled === true ? flags[KEY].variant : null
}

/** Sends the exposures and sign-ups of all persons, the same number for both variants. */
async function sendPersons(): Promise<void> {
  const batch = Array.from({ length: PERSONS }, (_, index) => {
    const variant = index % 2 === 0 ? 'control' : 'short'
    const properties = { $feature_flag: KEY, $feature_flag_response: variant }
    const called = { event: '$feature_flag_called', distinct_id: `person-${index}`, properties }
    const signedUp = { event: 'signed_up', distinct_id: `person-${index}`, properties: {} }
    return (index / 2) % 100 < RATES[variant] ? [called, signedUp] : [called]
  }).flat()
  for (let from = 0; from < batch.length; from += 500) {
    const part = batch.slice(from, from + 500)
    const answer = await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch: part })
    t.equal(answer.status, 200)
  }
  await daemonHas(batch.length)
}

async function eventCount(): Promise<number> {
  const query = { kind: 'EventsQuery', select: ['count()'] }
  const asked = askApi<{ results: number[][] }>(daemon, 'POST', 'projects/1/query/', { query })
  return (await asked).results[0]?.[0] ?? 0
}

/** Waits until the project has so many events. */
async function daemonHas(count: number): Promise<void> {
  while ((await eventCount()) < count) await new Promise((resolve) => setTimeout(resolve, 50))
}

if (browser !== null) {
  await capture(daemon, [{ event: 'signed_up', distinct_id: 'first', properties: {} }], 1)
  const window = await openWindow(browser, { url: daemon.url })
  const { page } = window
  const main = () => page.locator('main').innerText()

  t.test('an experiment is created with its flag and its metric', async (t) => {
    await window.open('/p/1/experiments')
    await page.getByText('No experiments yet.').waitFor()
    await window.press('New experiment')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name', { exact: true }).fill('Shorter form')
    await dialog.getByLabel('Flag key').fill(KEY)
    await dialog.getByLabel('New variants').fill('short')
    await dialog.getByLabel('Event that shows success').fill('signed')
    await page.getByRole('option', { name: /signed_up/ }).click()
    await window.answer('Create experiment')
    await page.getByRole('heading', { name: 'Shorter form' }).waitFor()
    await page.getByText('This is a draft. Nobody gets a variant yet.').waitFor()
    await window.settled()
    t.match(await main(), /Conversion to signed_up/)
    t.equal(await variantOf('somebody'), null)
    window.isSilent(t)
  })

  t.test('a launch says what happens, and then it happens', async (t) => {
    await window.press('Launch')
    const dialog = page.getByRole('dialog')
    t.match(
      await dialog.innerText(),
      /The flag short-form is switched on.*variants can no longer change/s,
    )
    await window.answer('Launch')
    await page.getByText('Nobody is counted yet', { exact: true }).waitFor()
    t.ok(Object.keys(RATES).includes(String(await variantOf('somebody'))))
    t.equal((await stored()).status, 'running')
    window.isSilent(t)
  })

  t.test('the page says who is ahead, how sure that is, and what to do', async (t) => {
    await sendPersons()
    await page.reload()
    await page.getByRole('heading', { name: '“short” is better than “control”' }).waitFor()
    await window.settled()
    const text = await main()
    t.match(text, /“short” has 40.0 % and “control” has 20.0 %, a change of \+100.0 %/)
    t.match(text, /The true change is between \+\d+\.\d % and \+\d+\.\d %/)
    t.match(text, /You can rely on it\. At most 5 of 100/)
    t.match(text, /What to do: Ship “short”/)
    t.match(text, /Each variant has its share of the persons\./)
    t.match(text, /Nothing was changed while the experiment ran\./)
    t.match(text, /2,000 persons: control 1,000 \(50 %\), short 1,000 \(50 %\)/)
    const picture = page.getByRole('img', { name: /^between \+/ })
    t.equal(await picture.count(), 1)
    const rows = await window.rows('Conversion to signed_up')
    t.match(rows[0], ['control', '1,000', '20.0 %', 'the others are compared with it'])
    t.match(rows[1], ['short', '1,000', '40.0 %', /^\+100\.0 %/])
    window.isSilent(t)
  })

  t.test('the page has room for its results before they arrive', async (t) => {
    const shift = await window.shiftOf('/p/1/experiments/1')
    t.ok(shift < 0.05, `layout shift ${shift}`)
  })

  t.test('the persons of an experiment are saved as a cohort', async (t) => {
    await window.press('Save as cohort')
    const dialog = page.getByRole('dialog')
    t.match(await dialog.innerText(), /who got a variant until now, in all variants/)
    await window.answer('Save as cohort')
    const name = 'Persons exposed to the experiment "Shorter form"'
    await page.getByRole('link', { name }).click()
    await page.getByRole('dialog', { name }).waitFor()
    const { results } = await askApi<{ results: { name: string; count: number }[] }>(
      daemon,
      'GET',
      'projects/1/cohorts/',
    )
    t.match(results, [{ name, count: PERSONS }])
    await page.goBack()
    await page.getByText('Saved as the cohort').waitFor()
    t.equal(await page.getByRole('button', { name: 'Save as cohort' }).count(), 0)
    window.isSilent(t)
  })

  t.test('a change while it runs is on the check list', async (t) => {
    const { feature_flag: flag } = await stored()
    const groups = [{ properties: [], rollout_percentage: 50 }]
    const variants = Object.keys(RATES).map((key) => ({ key, rollout_percentage: 50 }))
    const filters = { groups, multivariate: { variants } }
    await askApi(daemon, 'PATCH', `projects/1/feature_flags/${flag.id}/`, { filters })
    await page.reload()
    await page
      .getByText(/the conditions of the flag were changed while the experiment ran/)
      .waitFor()
    await window.press('Pause')
    await window.answer('Pause')
    await page.getByText('Nobody gets a variant, and nobody new is counted.').waitFor()
    t.equal(await variantOf('somebody'), null)
    await window.press('Resume')
    await window.answer('Resume')
    await page.getByText('Running', { exact: true }).waitFor()
    window.isSilent(t)
  })

  t.test('a variant is shipped to everybody after a question', async (t) => {
    await window.press('Ship a variant')
    const dialog = page.getByRole('dialog')
    t.match(
      await dialog.innerText(),
      /From now on everybody gets this variant.*The experiment ends\./s,
    )
    await dialog.getByLabel('Variant', { exact: true }).selectOption('short')
    await dialog.getByLabel('Judgment').selectOption('won')
    await window.answer('Ship the variant')
    await page.getByText('Ended', { exact: true }).waitFor()
    t.match(await stored(), {
      status: 'stopped',
      conclusion: 'won',
      feature_flag: { active: true },
    })
    const people = Array.from({ length: 20 }, (_, index) => `newcomer-${index}`)
    const variants = await Promise.all(people.map(variantOf))
    t.strictSame([...new Set(variants)], ['short'])
    await window.open('/p/1/experiments?state=stopped')
    await page.getByText('A variant won').waitFor()
    t.match(await window.rows('Experiments'), [[/^Shorter form/, 'Ended', 'control, short']])
    window.isSilent(t)
  })

  t.test('an experiment that counts groups says so, and offers no cohort of persons', async (t) => {
    const project = 'projects/1/experiments'
    const made = await askApi<Experiment>(daemon, 'POST', `${project}/`, {
      name: 'By company',
      feature_flag_key: 'by-company',
      parameters: { aggregation_group_type_index: 0 },
      metrics: [{ metric_type: 'mean', source: { kind: 'EventsNode', event: 'signed_up' } }],
    })
    const start_date = new Date(Date.now() - 60_000).toISOString()
    await askApi(daemon, 'PATCH', `${project}/${made.id}/`, { start_date })
    const called = (company: string | null) => ({
      event: '$feature_flag_called',
      distinct_id: `works-for-${company}`,
      properties: {
        $feature_flag: 'by-company',
        $feature_flag_response: 'test',
        ...(company === null ? {} : { $groups: { company } }),
      },
    })
    const send = async (batch: readonly object[]) => {
      const before = await eventCount()
      t.equal((await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })).status, 200)
      await daemonHas(before + batch.length)
    }
    await send([called(null)])
    await window.open(`/p/1/experiments/${made.id}`)
    await page.getByText('because they have no group: 1.').waitFor()
    t.match(await main(), /Nobody is counted yet/, 'no exposure has a group')
    await send([called('a'), called('b')])
    await page.reload()
    await page.getByText('test 2 (100 %)').waitFor()
    await page.getByText('because they have no group: 1.').waitFor()
    t.match(await main(), /2 persons: control 0 \(0 %\), test 2 \(100 %\)/)
    t.equal(await page.getByRole('button', { name: 'Save as cohort' }).count(), 0)
    window.isSilent(t)
  })
}
