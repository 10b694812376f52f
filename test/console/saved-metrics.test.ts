/**
 * The page "Saved metrics" in Chromium: saved metrics are created, renamed, changed and deleted, experiments use them,
 * and the page of an experiment shows which of its metrics are saved.
 *
 * @lane browser
 */
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, capture, STRANGE } from '../fixtures/console-data.ts'

const { daemon, browser } = await startConsole(t)
const [HOSTILE = ''] = STRANGE

interface SavedMetric {
  readonly id: number
  readonly name: string
  readonly query: Readonly<Record<string, unknown>>
}

interface Experiment {
  readonly id: number
  readonly metrics: readonly unknown[]
  readonly saved_metrics: readonly {
    readonly name: string
    readonly metadata: { readonly type: string }
  }[]
}

async function list<Row>(path: string): Promise<readonly Row[]> {
  return (await askApi<{ results: Row[] }>(daemon, 'GET', `projects/1/${path}/`)).results
}

const savedMetrics = () => list<SavedMetric>('experiment_saved_metrics')

async function usedMetrics(): Promise<readonly string[]> {
  const [experiment] = await list<Experiment>('experiments')
  return (experiment?.saved_metrics ?? []).map(({ name, metadata }) => `${metadata.type} ${name}`)
}

if (browser !== null) {
  await capture(
    daemon,
    ['signed_up', 'paid'].map((event) => ({ event, distinct_id: 'first', properties: {} })),
    2,
  )
  const window = await openWindow(browser, { url: daemon.url })
  const { page } = window
  const dialog = page.getByRole('dialog')
  const section = (name: RegExp) => page.getByRole('region', { name })
  /** The name, the definition and the number of experiments of each saved metric. */
  const rows = async () =>
    (await window.rows('Saved metrics')).map(([name, compared, , count]) => [name, compared, count])

  t.test('a saved metric is created, and its name is unique', async (t) => {
    await window.open('/p/1/experiments')
    await page.getByRole('link', { name: 'Saved metrics' }).click()
    await page.getByText('No saved metrics yet.').waitFor()
    await window.press('New saved metric')
    await dialog.getByLabel('Name', { exact: true }).fill(HOSTILE)
    await dialog.getByLabel('Event that shows success').fill('signed')
    await page.getByRole('option', { name: /signed_up/ }).click()
    await window.answer('Create metric')
    const first = [HOSTILE, 'Conversion to signed_up', '0']
    await window.shows(t, rows, [first], 'the new metric')
    await window.press('New saved metric')
    await dialog.getByLabel('Name', { exact: true }).fill(HOSTILE)
    await dialog.getByLabel('Event that shows success').fill('pai')
    await page.getByRole('option', { name: /paid/ }).click()
    await dialog.getByLabel('What is compared').selectOption('sum')
    await dialog.getByLabel('Property', { exact: true }).fill('amount')
    await dialog.getByLabel('Goal').selectOption('decrease')
    await window.answer('Create metric')
    await dialog.getByText(/already has a saved metric with the name/).waitFor()
    t.equal(window.excuse(/400/), 2, 'the refusal is shown, and the input stays')
    await dialog.getByLabel('Name', { exact: true }).fill('Refunds')
    await window.answer('Create metric')
    const second = ['Refunds', 'sum of amount of paid per person', '0']
    const both = [first, second].sort(([a = ''], [b = '']) => (a < b ? -1 : 1))
    await window.shows(t, rows, both, 'both metrics')
    t.equal(await page.evaluate('globalThis.isHit'), undefined)
    window.isSilent(t)
  })

  t.test('a new experiment uses a saved metric, and its page says so', async (t) => {
    await page.getByRole('link', { name: 'Experiments' }).first().click()
    await window.press('New experiment')
    await dialog.getByLabel('Name', { exact: true }).fill('Short form')
    await dialog.getByLabel('Flag key').fill('short-form')
    await dialog.getByLabel('Metric', { exact: true }).selectOption(HOSTILE)
    t.equal(await dialog.getByLabel('Event that shows success').count(), 0)
    await window.answer('Create experiment')
    await page.getByRole('heading', { name: 'Short form' }).waitFor()
    const primary = section(/^Primary/)
    await primary.getByRole('link', { name: 'Saved metric' }).waitFor()
    t.match(await primary.innerText(), HOSTILE)
    t.notMatch(await page.locator('main').innerText(), /There is no primary metric/)
    t.strictSame(await usedMetrics(), [`primary ${HOSTILE}`])
    window.isSilent(t)
  })

  t.test('an experiment gets further saved metrics, and loses them again', async (t) => {
    await window.press('Add a metric')
    await dialog.getByLabel('Role').selectOption('metrics_guard')
    t.equal(
      await dialog.getByLabel('Metric', { exact: true }).count(),
      0,
      'a guard is a new metric',
    )
    await dialog.getByLabel('Role').selectOption('metrics_secondary')
    const options = dialog.getByLabel('Metric', { exact: true }).locator('option')
    t.strictSame(await options.allInnerTexts(), ['A new metric', 'Refunds'])
    await dialog.getByLabel('Metric', { exact: true }).selectOption('Refunds')
    await window.answer('Add metric')
    await section(/^Secondary/)
      .getByText('Refunds')
      .waitFor()
    t.strictSame(await usedMetrics(), [`primary ${HOSTILE}`, 'secondary Refunds'])
    await section(/^Secondary/)
      .getByRole('button', { name: 'Remove' })
      .click()
    await window.answer('Remove')
    await section(/^Secondary/).waitFor({ state: 'detached' })
    t.strictSame(await usedMetrics(), [`primary ${HOSTILE}`])
    window.isSilent(t)
  })

  t.test('a saved metric is renamed and changed, and the experiment shows it', async (t) => {
    await page.getByRole('link', { name: 'Saved metric', exact: true }).click()
    await page.getByLabel('Name or description').fill(HOSTILE.slice(0, 5))
    await window.shows(t, rows, [[HOSTILE, 'Conversion to signed_up', '1']], 'the found one')
    await window.press('Edit')
    await dialog.getByText('The results of 1 experiment change with the metric.').waitFor()
    await dialog.getByLabel('Name', { exact: true }).fill('Sign-ups')
    await dialog.getByLabel('What is compared').selectOption('count')
    await window.answer('Save metric')
    await page.getByText('The saved metric “Sign-ups” is saved.').waitFor()
    await page.getByLabel('Name or description').fill('')
    const second = ['Refunds', 'sum of amount of paid per person', '0']
    const changed = [second, ['Sign-ups', 'signed_up per person', '1']]
    await window.shows(t, rows, changed, 'the new name and definition')
    await page.getByRole('link', { name: 'Short form' }).click()
    await section(/^Primary/)
      .getByText('Sign-ups')
      .waitFor()
    window.isSilent(t)
  })

  t.test('options that the form cannot show stay as they are', async (t) => {
    const [{ id } = { id: 0 }] = (await savedMetrics()).filter(({ name }) => name === 'Refunds')
    const query = {
      metric_type: 'ratio',
      goal: 'increase',
      numerator: { kind: 'EventsNode', event: 'paid' },
      denominator: { kind: 'EventsNode', event: 'signed_up' },
    }
    await askApi(daemon, 'PATCH', `projects/1/experiment_saved_metrics/${id}/`, { query })
    await window.open('/p/1/experiments/metrics?search=refunds')
    await window.shows(t, rows, [['Refunds', 'paid per signed_up', '0']], 'the ratio')
    await window.press('Edit')
    await dialog.getByText('This form cannot show all options of the metric.').waitFor()
    t.equal(await dialog.getByLabel('Goal').count(), 0)
    await dialog.getByLabel('Description').fill('money')
    await window.answer('Save metric')
    await page.getByRole('cell', { name: 'money' }).waitFor()
    t.match((await savedMetrics()).find((one) => one.id === id)?.query, query)
    window.isSilent(t)
  })

  t.test('a saved metric is deleted only if no experiment uses it', async (t) => {
    await window.press('Delete')
    await dialog.getByText('No experiment uses it.').waitFor()
    await window.answer('Delete')
    await page.getByText('No saved metric matches the search.').waitFor()
    await page.getByLabel('Name or description').fill('')
    await window.shows(t, rows, [['Sign-ups', 'signed_up per person', '1']], 'the other one')
    await window.press('Delete')
    await dialog.getByText('1 experiment uses it. Remove it there first.').waitFor()
    t.equal(await dialog.getByRole('button', { name: 'Delete', exact: true }).count(), 0)
    t.strictSame(
      (await savedMetrics()).map(({ name }) => name),
      ['Sign-ups'],
    )
    window.isSilent(t)
  })
}
