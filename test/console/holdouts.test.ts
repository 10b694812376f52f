/**
 * The page "Holdouts" in Chromium: holdouts are created, changed and deleted, the page shows which experiments use them,
 * and a draft of an experiment chooses one.
 *
 * @lane browser
 */
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, STRANGE } from '../fixtures/console-data.ts'

const { daemon, browser } = await startConsole(t)
const [HOSTILE = ''] = STRANGE

interface Stored {
  readonly id: number
  readonly name: string
  readonly holdout_id?: number | null
  readonly filters?: readonly { readonly rollout_percentage: number }[]
}

async function list(path: string): Promise<readonly Stored[]> {
  return (await askApi<{ results: Stored[] }>(daemon, 'GET', `projects/1/${path}/`)).results
}

if (browser !== null) {
  const window = await openWindow(browser, { url: daemon.url })
  const { page } = window
  const dialog = page.getByRole('dialog')
  const rows = async () =>
    (await window.rows('Holdouts')).map(([name, share, , users]) => [name, share, users])

  t.test('a holdout is created and used by an experiment', async (t) => {
    await window.open('/p/1/experiments')
    await page.getByRole('link', { name: 'Holdouts' }).click()
    await page.getByText('No holdouts yet.').waitFor()
    await window.press('New holdout')
    await dialog.getByLabel('Name', { exact: true }).fill(HOSTILE)
    await dialog.getByLabel(/^Share of all people/).fill('101')
    await window.answer('Create holdout')
    await dialog.getByText(/0 to 100/).waitFor()
    t.equal(window.excuse(/400/), 2, 'the refusal is shown, and the input stays')
    await dialog.getByLabel(/^Share of all people/).fill('7.5')
    await window.answer('Create holdout')
    await window.shows(t, rows, [[HOSTILE, '7.5 %', 'no experiment']], 'the new holdout')

    await page.getByRole('link', { name: 'Experiments' }).first().click()
    await window.press('New experiment')
    await dialog.getByLabel('Name', { exact: true }).fill('Short form')
    await dialog.getByLabel('Flag key').fill('short-form')
    await dialog.getByLabel('Holdout').selectOption(HOSTILE)
    await window.answer('Create experiment')
    await page.getByRole('heading', { name: 'Short form' }).waitFor()
    await page.getByRole('link', { name: HOSTILE }).click()
    await window.shows(t, rows, [[HOSTILE, '7.5 %', 'Short form']], 'the experiment that uses it')
    const [[experiment], [holdout]] = [await list('experiments'), await list('experiment_holdouts')]
    t.equal(experiment?.holdout_id, holdout?.id)
    t.equal(await page.evaluate('globalThis.isHit'), undefined)
    window.isSilent(t)
  })

  t.test('a draft changes its holdout, and a launched experiment cannot', async (t) => {
    const [experiment] = await list('experiments')
    await window.open(`/p/1/experiments/${experiment?.id}`)
    await window.press('Change')
    await dialog.getByLabel('Holdout').selectOption('None')
    await window.answer('Save')
    await page.getByText('The experiment is saved.').waitFor()
    t.equal((await list('experiments'))[0]?.holdout_id, null)
    await window.press('Change')
    await dialog.getByLabel('Holdout').selectOption(HOSTILE)
    await window.answer('Save')
    await page.getByRole('link', { name: HOSTILE }).waitFor()
    await window.press('Launch')
    await window.answer('Launch')
    await page.getByText('Running', { exact: true }).waitFor()
    await window.press('Change')
    await dialog.getByLabel('Name', { exact: true }).waitFor()
    t.equal(await dialog.getByLabel('Holdout').count(), 0)
    await dialog.getByLabel('Name', { exact: true }).fill('Shorter form')
    await window.answer('Save')
    await page.getByRole('heading', { name: 'Shorter form' }).waitFor()
    const [changed] = await list('experiments')
    t.not(changed?.holdout_id, null, 'a save of other fields keeps the holdout')
    window.isSilent(t)
  })

  t.test('a holdout is changed and deleted', async (t) => {
    await window.open('/p/1/experiments/holdouts')
    await window.press('Edit')
    await dialog.getByText(/applies at once to all experiments/).waitFor()
    await dialog.getByLabel('Name', { exact: true }).fill('Everyone else')
    await dialog.getByLabel(/^Share of all people/).fill('20')
    await window.answer('Save holdout')
    await window.shows(t, rows, [['Everyone else', '20 %', 'Shorter form']], 'the new values')
    t.match(await list('experiment_holdouts'), [{ filters: [{ rollout_percentage: 20 }] }])
    await window.press('Delete')
    await dialog.getByText(/also in experiments that are running/).waitFor()
    await window.answer('Delete')
    await page.getByText('No holdouts yet.').waitFor()
    t.equal((await list('experiments'))[0]?.holdout_id, null)
    window.isSilent(t)
  })
}
