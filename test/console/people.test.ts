/**
 * Persons and cohorts of the console in Chromium, their files, and the retention of events.
 *
 * @lane browser
 */
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, capture } from '../fixtures/console-data.ts'
import { PROJECT_KEY } from '../fixtures/daemon.ts'

const PERSONS = 120
const DAY_MS = 86_400_000

const { daemon, browser } = await startConsole(t)
const window = browser && (await openWindow(browser, { url: daemon.url }))

if (window !== null) {
  const { page } = window

  t.test(
    'the empty list shows a command with the address and the key of the project',
    async (t) => {
      await window.open('/p/1/persons')
      const command = page.locator('main pre code')
      await command.waitFor()
      t.match(await command.innerText(), `${daemon.url}/capture/`)
      t.match(await command.innerText(), PROJECT_KEY)
      window.isSilent(t)
    },
  )

  t.test('persons have columns that can be chosen, and the file has all rows', async (t) => {
    const batch = Array.from({ length: PERSONS }, (_, index) => {
      const $set = { email: `p${index}@shop.example`, $geoip_country_code: 'DE', plan: 'pro' }
      return { event: 'seen', distinct_id: `person-${index}`, properties: { $set } }
    })
    const named = { name: 'Ada Example', company: 'Example Ltd' }
    await capture(
      daemon,
      [...batch, { event: 'named', distinct_id: 'person-7', properties: { $set: named } }],
      PERSONS + 1,
    )
    await window.open('/p/1/persons?search=p7%40')
    const rows = () => window.rows('Persons')
    const texts = async () =>
      (await rows()).map(([name = '', ...rest]) => [name.split('\n').at(-1), ...rest.slice(0, 3)])
    const ada = ['Ada Example', 'p7@shop.example', 'Example Ltd', '🇩🇪 Germany']
    await window.shows(t, texts, [ada], 'name, e-mail, company, country')
    await window.press('Columns')
    await page.getByRole('group', { name: 'Columns' }).getByLabel('plan').check()
    t.match(page.url(), /columns=[^&]*plan/)
    await page.reload()
    await window.shows(t, async () => (await rows())[0]?.at(-1), 'pro', 'the link keeps the column')

    await window.open('/p/1/persons')
    await page.locator('main tbody tr').first().waitFor()
    const saved = page.waitForEvent('download')
    await window.press(/^Download CSV: /)
    const lines = (await readFile(await (await saved).path(), 'utf8')).trim().split('\r\n')
    t.equal(lines.length, PERSONS + 1, 'all pages')
    t.match(lines[0], /created_at.*properties\.email|properties\.email.*created_at/)
    t.ok(
      lines.every((line, index) => index === 0 || /\d{4}-\d\d-\d\dT/.test(line)),
      'ISO days',
    )
    window.isSilent(t)
  })

  t.test(
    'a person is first seen with its first event, and its page tells about a wrong address',
    async (t) => {
      const early = new Date(Date.now() - 3 * DAY_MS).toISOString()
      await capture(
        daemon,
        [
          {
            event: 'before',
            distinct_id: 'visitor',
            timestamp: early,
            properties: { $process_person_profile: false },
          },
          { event: '$identify', distinct_id: 'zoe', properties: { $anon_distinct_id: 'visitor' } },
        ],
        PERSONS + 3,
      )
      const { results } = await askApi<{ results: { uuid: string; created_at: string }[] }>(
        daemon,
        'GET',
        'projects/1/persons/?distinct_id=zoe',
      )
      const [zoe] = results
      t.ok(zoe && zoe.created_at > early, 'the person is younger than its first event')
      await window.open(`/p/1/persons/${zoe?.uuid}`)
      const first = page.locator('dt:text-is("First seen") + dd')
      await window.shows(
        t,
        async () => (await first.innerText()).includes('3d ago'),
        true,
        'first event',
      )

      await window.open('/p/1/persons/nonsense')
      await page.getByText('There is no person with this address.').waitFor()
      t.ok(window.excuse(/40[04]/) > 0)
      window.isSilent(t)
    },
  )

  t.test('the list of cohorts counts their members', async (t) => {
    const rule = (value: string) => ({
      properties: {
        type: 'AND',
        values: [
          { type: 'AND', values: [{ key: 'plan', value, operator: 'exact', type: 'person' }] },
        ],
      },
    })
    await askApi(daemon, 'POST', 'projects/1/cohorts/', { name: 'Pro', filters: rule('pro') })
    await askApi(daemon, 'POST', 'projects/1/cohorts/', { name: 'None', filters: rule('none') })
    await window.open('/p/1/cohorts')
    const sizes = async () =>
      (await window.rows('Cohorts')).map(([name, , size]) => [name, size]).toSorted()
    await window.shows(
      t,
      sizes,
      [
        ['None', '0'],
        ['Pro', String(PERSONS)],
      ],
      'sizes',
    )
    window.isSilent(t)
  })

  t.test('a dialog that a table cell opens does not look like the cell', async (t) => {
    await window.open('/p/1/persons?search=p7%40')
    await page.locator('main tbody tr').first().click()
    await page.getByRole('button', { name: 'Edit' }).first().click()
    const dialog = page.getByRole('dialog')
    const align = `getComputedStyle(document.querySelector('dialog[open] .field label')).textAlign`
    await dialog.waitFor()
    t.equal(await page.evaluate(align), 'start')
    const button = await dialog.getByRole('button', { name: 'Save property' }).boundingBox()
    const field = await dialog.getByLabel('Value').boundingBox()
    t.equal(button?.x, field?.x)
    await page.keyboard.press('Escape')
    await window.settled()
    window.isSilent(t)
  })

  t.test('a shorter retention says what it deletes before it deletes it', async (t) => {
    await window.open('/p/1/settings')
    await page.getByLabel('Keep events for this many days').fill('1')
    await window.press('Preview')
    await page.getByText('1 event will be deleted permanently.').waitFor()
    await window.press('Delete and keep 1 day')
    await page.getByRole('heading', { name: 'Delete 1 event?' }).waitFor()
    t.match(await page.getByRole('dialog').innerText(), 'cannot be restored')
    await window.answer('Delete and keep 1 day')
    await page.getByText('Events are kept for 1 day from now on.').waitFor()
    window.isSilent(t)
  })
}
