/**
 * Flags in Chromium: created by mouse and by keyboard, previewed, explained, edited by two users at once, and kept
 * while the daemon is away.
 *
 * @lane browser
 */
import t, { type Test } from 'tap'
import { linesOf, runCommand } from '../fixtures/command-line.ts'
import { type ConsoleWindow, openWindow, startConsole } from '../fixtures/console.ts'
import { askApi, fillProject } from '../fixtures/console-data.ts'
import { PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { jsonOf, postJson } from '../fixtures/exact-client.ts'
import { freePort } from '../fixtures/free-port.ts'

const PERSONS = Array.from({ length: 24 }, (_, index) => `person-${index}`)
/** Expected values by the number of the person. */
const PLANS = ['free', 'pro', 'team']
const TABS_MAX = 150

// A daemon that chose its port itself may not get the same port again while old connections are closing.
const onPort = ['--port', String(await freePort())]
const { daemon, dataDir, browser } = await startConsole(t, onPort)
await fillProject(daemon)

interface Decision {
  readonly enabled: boolean
  readonly variant?: string
  readonly metadata: { readonly payload: string | null }
}

/** Returns the value of a flag for one person, as an SDK receives it. */
async function decide(key: string, who: string): Promise<Decision | undefined> {
  const body = { token: PROJECT_KEY, distinct_id: who, flag_keys: [key] }
  const answer = jsonOf(await postJson(`${daemon.url}/flags/?v=2`, body))
  return (answer as { flags: Record<string, Decision> }).flags[key]
}

/** Returns the value for every person, by distinct_id. */
async function decideAll(key: string): Promise<ReadonlyMap<string, string>> {
  const values = PERSONS.map(async (who) => {
    const flag = await decide(key, who)
    return [who, String(flag?.enabled === true ? (flag.variant ?? true) : false)] as const
  })
  return new Map(await Promise.all(values))
}

interface StoredFlag {
  readonly id: number
  readonly key: string
  readonly name: string
  readonly active: boolean
  readonly tags: readonly string[]
  readonly filters: {
    readonly groups: readonly {
      readonly properties: readonly unknown[]
      readonly rollout_percentage: number
      readonly variant?: string | null
    }[]
    readonly multivariate: { readonly variants: readonly unknown[] } | null
    readonly payloads: Readonly<Record<string, string>>
  }
}

async function storedFlag(key: string): Promise<StoredFlag> {
  const path = `projects/1/feature_flags/?search=${key}`
  const { results } = await askApi<{ results: StoredFlag[] }>(daemon, 'GET', path)
  const found = results.find((one) => one.key === key)
  if (found === undefined) throw new Error(`there is no flag ${key}`)
  return found
}

const planIs = (value: string) => ({ key: 'plan', type: 'person', operator: 'exact', value })

function makeFlag(key: string): Promise<StoredFlag> {
  const groups = [{ properties: [planIs('pro')], rollout_percentage: 100 }]
  return askApi(daemon, 'POST', 'projects/1/feature_flags/', {
    key,
    name: key,
    filters: { groups },
  })
}

/** Presses Tab until the focused element has this name. */
async function tabTo(t: Test, { page }: ConsoleWindow, name: RegExp): Promise<void> {
  const seen: string[] = []
  for (let press = 0; press < TABS_MAX; press++) {
    await page.keyboard.press('Tab')
    const focused = await page.evaluate(`(() => {
      const { activeElement: one } = document
      const section = one.closest('section')?.getAttribute('aria-label') ?? ''
      const words = one.labels?.[0]?.textContent || one.getAttribute('aria-label') || one.textContent
      return section + ': ' + words.trim()
    })()`)
    if (name.test(String(focused))) return
    seen.push(String(focused))
  }
  t.fail(`Tab does not come to ${String(name)}`, { seen })
}

if (browser !== null) {
  const window = await openWindow(browser, { url: daemon.url })
  const { page } = window
  const save = () => page.getByRole('button', { name: 'Save', exact: true }).click()
  const saved = (key: string) => page.getByText(`${key} is saved, and decides so`).waitFor()

  t.test(
    'a flag with conditions, variants and a payload decides as soon as it is saved',
    async (t) => {
      await window.open('/p/1/flags')
      await window.press('New flag')
      await page.getByLabel('Key', { exact: true }).fill('price')
      await window.press('Make it')
      await page.getByLabel('On', { exact: true }).check()
      await window.press('+ Condition set')
      for (const [index, plan] of ['pro', 'free'].entries()) {
        const condition = page.getByRole('region', { name: `Condition ${index + 1}` })
        await condition.getByRole('button', { name: '+ Condition' }).click()
        await condition.getByLabel('Property').fill('plan')
        await condition.getByLabel('Value').fill(plan)
        await condition.getByLabel('Share in %').fill('100')
        await condition.getByText(/^8 of \d+ fit$/).waitFor()
      }
      await window.press('Use variants')
      await window.press('+ Variant')
      for (const [index, share] of [33, 33, 34].entries()) {
        const variant = page.getByRole('region', { name: `Variant ${index + 1}` })
        await variant.getByLabel('Share in %').fill(String(share))
      }
      const third = page.getByRole('region', { name: 'Variant 3' })
      await third.getByLabel(/^Payload of/).fill('{"price": 9')
      await page.getByText('The payload of variant-3 is no JSON.').waitFor()
      await third.getByLabel(/^Payload of/).fill('{"price": 9}')
      await page
        .getByRole('region', { name: 'Condition 2' })
        .getByLabel('Variant')
        .selectOption('variant-3')
      // A renamed variant keeps its payload, and so does the condition that always serves it.
      await third.getByLabel('Variant', { exact: true }).fill('cheap')
      t.equal(await third.getByLabel('Payload of cheap').inputValue(), '{"price": 9}')
      await save()
      await saved('price')

      const { active, filters } = await storedFlag('price')
      t.equal(active, true)
      t.match(filters, {
        groups: [
          { properties: [planIs('pro')], rollout_percentage: 100 },
          { properties: [planIs('free')], rollout_percentage: 100, variant: 'cheap' },
        ],
        multivariate: {
          variants: [
            { key: 'control', rollout_percentage: 33 },
            { key: 'test', rollout_percentage: 33 },
            { key: 'cheap', rollout_percentage: 34 },
          ],
        },
        payloads: { cheap: '{"price": 9}' },
      })
      const got = new Set<string>()
      for (const [index, who] of PERSONS.entries()) {
        const flag = await decide('price', who)
        t.equal(flag?.enabled, index % PLANS.length !== 2, who)
        if (flag?.enabled !== true) continue
        got.add(String(flag.variant))
        if (index % PLANS.length === 0) t.equal(flag.variant, 'cheap')
        const isCheap = flag.variant === 'cheap'
        t.equal(flag.metadata.payload, isCheap ? '{"price": 9}' : null)
      }
      t.strictSame([...got].sort(), ['cheap', 'control', 'test'])
      window.isSilent(t)
    },
  )

  t.test('a flag can be created and enabled with the keyboard alone', async (t) => {
    const press = (...keys: readonly string[]) =>
      keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve())
    await window.open('/p/1/web')
    await window.settled()
    await press('g', 'f')
    await page.getByRole('heading', { name: 'Flags', exact: true }).waitFor()
    await tabTo(t, window, /New flag/)
    await press('Enter')
    await tabTo(t, window, /Key/)
    await page.keyboard.type('by-keys')
    await press('Enter')
    await page.getByRole('heading', { name: 'by-keys' }).waitFor()
    await tabTo(t, window, /^Flag: Name/)
    await press('Control+a')
    await page.keyboard.type('By keys')
    await tabTo(t, window, /^Flag: On$/)
    await press('Space')
    await tabTo(t, window, /^Condition 1: \+ Condition$/)
    await press('Enter')
    await press('Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab')
    await tabTo(t, window, /^Condition 1: Property$/)
    await page.keyboard.type('plan')
    await tabTo(t, window, /^Condition 1: Value$/)
    await page.keyboard.type('team')
    await tabTo(t, window, /^Condition 1: Share in %$/)
    await press('Control+a')
    await page.keyboard.type('100')
    await tabTo(t, window, /: Save$/)
    await press('Enter')
    await saved('by-keys')
    const { name, active, filters } = await storedFlag('by-keys')
    t.match({ name, active }, { name: 'By keys', active: true })
    t.match(filters.groups, [{ properties: [planIs('team')], rollout_percentage: 100 }])
    t.equal((await decide('by-keys', 'person-2'))?.enabled, true)
    t.equal((await decide('by-keys', 'person-1'))?.enabled, false)
    window.isSilent(t)
  })

  t.test('the switch in the list toggles the flag and does not open it', async (t) => {
    await makeFlag('switched')
    await window.open('/p/1/flags?search=switched')
    await page.locator('main tbody tr').first().locator('label').click()
    await page.getByText('switched is off.').waitFor()
    t.equal((await storedFlag('switched')).active, false)
    t.equal(new URL(page.url()).pathname, '/p/1/flags')
    window.isSilent(t)
  })

  t.test('a preview lists exactly the persons whose value changes', async (t) => {
    const { id } = await makeFlag('rehearsed')
    const before = await decideAll('rehearsed')
    await window.open(`/p/1/flags/${id}`)
    const condition = page.getByRole('region', { name: 'Condition 1' })
    await condition.getByLabel('Share in %').fill('50')
    await window.press('+ Condition set')
    const second = page.getByRole('region', { name: 'Condition 2' })
    await second.getByLabel('Share in %').fill('30')
    await window.press(/^Rehearse/)
    await page.locator('.table[aria-label=Examples]').waitFor()
    const flips = await window.rows('Changes')
    const examples = await window.rows('Examples')
    t.strictSame(await decideAll('rehearsed'), before, 'nothing is saved yet')
    await page.keyboard.press('Escape')
    await save()
    await saved('rehearsed')
    const after = await decideAll('rehearsed')
    const flipped = PERSONS.filter((who) => before.get(who) !== after.get(who))
    t.ok(flipped.length > 2, 'the value changes for at least one person')
    const named = examples
      .filter(([who]) => PERSONS.includes(String(who)))
      .map((cells) => cells.join())
      .sort()
    const wanted = flipped.map((who) => [who, before.get(who), after.get(who)].join()).sort()
    t.strictSame(named, wanted)
    const counted = flips.reduce((all, [, , count]) => all + Number(count), 0)
    t.equal(counted, examples.length)
    window.isSilent(t)
  })

  t.test('the page and the command line give the same decisions', async (t) => {
    const { id } = await storedFlag('price')
    for (const who of ['person-0', 'person-1', 'person-2', 'nobody']) {
      await window.open(`/p/1/flags/${id}?tab=explain`)
      await page.getByLabel('distinct_id').fill(who)
      const answered = page.waitForResponse(/\/explain\//)
      await window.press('Explain')
      const answer: unknown = await (await answered).json()
      const words = ['flag', 'explain', 'price', '--distinct-id', who, '--json']
      const told = linesOf(await runCommand(...words, '--data-dir', dataDir))
      t.strictSame([answer], told, who)
      const { value, description, conditions } = told[0] as {
        value: unknown
        description: string
        conditions: readonly { outcome: string }[]
      }
      const text = await page.locator('main').innerText()
      t.ok(text.includes(`${who} gets ${String(value)}: ${description}`), `${who}: ${description}`)
      t.equal(await page.locator('main .card ol > li').count(), conditions.length)
    }
    window.isSilent(t)
  })

  t.test(
    'if two users edit a flag, the second one sees both versions and loses no input',
    async (t) => {
      const { id } = await makeFlag('shared')
      const other = await openWindow(browser, { url: daemon.url })
      for (const one of [window, other]) await one.open(`/p/1/flags/${id}`)
      await other.page.getByLabel('Name').fill('Of the first')
      await other.page.getByLabel('Tags').fill('first')
      const share = ({ page }: ConsoleWindow) =>
        page.getByRole('region', { name: 'Condition 1' }).getByLabel('Share in %')
      await share(other).fill('70')
      await page.getByLabel('Name').fill('Of the second')
      await page.getByLabel('Tags').fill('second, kept')
      await other.press('Save')
      await other.page.getByText('shared is saved').waitFor()
      await save()
      const dialog = page.getByRole('dialog', { name: 'Somebody else changed this flag' })
      await dialog.waitFor()
      t.strictSame(await window.rows('Differences'), [
        ['name', 'Of the first', 'Of the second'],
        ['tags', '["first"]', '["second","kept"]'],
      ])
      t.match(await storedFlag('shared'), { name: 'Of the first', tags: ['first'] })
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
      t.equal(
        await page.getByLabel('Name').inputValue(),
        'Of the second',
        'the input is still there',
      )
      t.equal(await page.getByLabel('Tags').inputValue(), 'second, kept')
      await save()
      await window.answer('Save mine over it')
      await saved('shared')
      const stored = await storedFlag('shared')
      t.match(stored, { name: 'Of the second', tags: ['second', 'kept'] })
      t.match(
        stored.filters.groups,
        [{ rollout_percentage: 70 }],
        'a field that only the first user changed',
      )

      // Changes of different fields do not conflict, and neither change undoes the other.
      await other.open(`/p/1/flags/${id}`)
      await page.reload()
      await page.getByLabel('Name').fill('Only a name')
      await other.page.getByLabel('Tags').fill('only tags')
      await other.press('Save')
      await other.page.getByText('shared is saved').waitFor()
      await save()
      await saved('shared')
      t.match(await storedFlag('shared'), { name: 'Only a name', tags: ['only tags'] })

      await other.open(`/p/1/flags/${id}`)
      await page.reload()
      await page.getByLabel('Name').fill('Of the second')
      await other.page.getByLabel('Name').inputValue()
      await save()
      await saved('shared')
      await other.page.getByLabel('Name').fill('Again')
      await other.press('Save')
      await other.press('Take theirs')
      await other.shows(
        t,
        () => other.page.getByLabel('Name').inputValue(),
        'Of the second',
        'theirs',
      )
      t.ok(window.excuse(/409/) > 0)
      t.ok(other.excuse(/409/) > 0)
      t.strictSame([...window.complaints.splice(0), ...other.complaints], [])
    },
  )

  t.test('Audit lists the changes of flags and the refused attempts', async (t) => {
    const made = (source: string) => `${source} POST 201`
    const saved = 'console PATCH 200'
    const refused = 'console PATCH 409'
    await window.open('/audit')
    await page.getByLabel('User, route or address').fill('/feature_flags/')
    const changes: Readonly<Record<string, readonly string[]>> = {
      price: [made('console'), saved],
      rehearsed: [made('api'), saved],
      shared: [made('api'), saved, refused, refused, saved, saved, saved, saved, refused],
    }
    for (const [key, wanted] of Object.entries(changes)) {
      const { id } = await storedFlag(key)
      const rows = async () =>
        (await window.rows('Changes'))
          .filter(([, , , what = '']) => what.endsWith(`/ ${id}`))
          .map(([, who, from, what, project, status]) => {
            t.match([who, from, project], ['owner@localhost', /, 127\.0\.0\.1$/, '1'])
            return [from?.split(',')[0], what?.split(' ')[0], status].join(' ')
          })
          .reverse()
      await window.shows<readonly string[]>(t, rows, wanted, key)
    }
    window.isSilent(t)
  })

  t.test('deleting a flag deletes only that flag', async (t) => {
    const { id } = await makeFlag('gone')
    await window.open(`/p/1/flags/${id}`)
    const sent: string[] = []
    page.on('request', (request) => {
      if (request.method() === 'PATCH') sent.push(request.postData() ?? '')
    })
    await page.getByLabel('Name').fill('never saved')
    await window.press('Delete the flag')
    await window.answer('Delete the flag')
    await page.waitForURL('**/p/1/flags')
    t.strictSame(sent, ['{"deleted":true}'])
    t.equal(await decide('gone', 'person-1'), undefined)
    window.isSilent(t)
  })

  t.test('input survives while the daemon is away', async (t) => {
    const { id } = await makeFlag('typed')
    await window.open(`/p/1/flags/${id}`)
    await page.getByLabel('Name').fill('Typed while it was away')
    await daemon.stop()
    await save()
    const banner = page.getByText('The daemon does not answer. What you entered is kept; this page')
    await banner.waitFor()
    t.equal(await page.getByLabel('Name').inputValue(), 'Typed while it was away')
    const again = await spawnDaemon({ dataDir, args: onPort })
    t.teardown(() => again.stop())
    await banner.waitFor({ state: 'detached' })
    await save()
    await saved('typed')
    t.match(await storedFlag('typed'), { name: 'Typed while it was away' })

    await again.stop()
    await page.getByRole('link', { name: 'Audit' }).click()
    const retry = page.getByRole('button', { name: 'Try again' })
    await retry.click()
    await retry.waitFor()
    // Otherwise the page would notice by itself, and the button would disappear under the click.
    await page.route('**/robots.txt', (route) => route.abort())
    const third = await spawnDaemon({ dataDir, args: onPort })
    t.teardown(() => third.stop())
    await retry.click()
    await page.locator('.table[aria-label=Changes] tbody tr').first().waitFor()
    t.ok(window.excuse(/net::ERR/) > 0)
    window.isSilent(t)
  })
}
