/**
 * Flags in Chromium: created by mouse and by keyboard, reviewed before they are saved, tested with a user, edited by
 * two users at once, changed back, and not lost while the user or the daemon is away.
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
const made = await fillProject(daemon)

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

function makeFlag(key: string, more: object = {}): Promise<StoredFlag> {
  const groups = [{ properties: [planIs('pro')], rollout_percentage: 100 }]
  return askApi(daemon, 'POST', 'projects/1/feature_flags/', {
    key,
    name: key,
    filters: { groups },
    ...more,
  })
}

/** Returns the number of decisions of a flag that the daemon has counted. */
async function decisionsOf(id: number): Promise<number> {
  const path = `projects/1/feature_flags/${id}/usage/`
  const { results } = await askApi<{ results: { count: number }[] }>(daemon, 'GET', path)
  return results.reduce((sum, { count }) => sum + count, 0)
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
  const review = (one: ConsoleWindow = window) => one.press('Review and save')
  const save = async (one: ConsoleWindow = window) => {
    await review(one)
    await one.answer('Save now')
  }
  const saved = (key: string, one: ConsoleWindow = window) =>
    one.page.getByText(`${key} is saved.`).waitFor()
  const rule = (number: number, one: ConsoleWindow = window) =>
    one.page.getByRole('region', { name: `Rule ${number}`, exact: true })
  const share = (number: number, one: ConsoleWindow = window) =>
    rule(number, one).getByLabel('Share in %', { exact: true })
  const description = (one: ConsoleWindow = window) => one.page.getByLabel('Description')
  const sentences = (label?: string) =>
    page
      .getByRole('dialog')
      .locator(label === undefined ? '.changes' : `.changes[aria-label="${label}"]`)
      .locator('li')
      .allInnerTexts()

  t.test('a flag with rules, variants and a payload decides as soon as it is saved', async (t) => {
    await window.open('/p/1/flags')
    await window.press('New flag')
    await page.getByLabel('Key', { exact: true }).fill('price')
    await window.answer('Create flag')
    await page.getByRole('heading', { name: 'price' }).waitFor()
    t.equal(await page.getByRole('button', { name: 'Review and save' }).isDisabled(), true)
    await page.getByLabel('Switch the flag on with this change').check()
    await window.press('+ Rule')
    for (const [index, plan] of ['pro', 'free'].entries()) {
      const fields = rule(index + 1)
      await fields.getByRole('button', { name: '+ Condition' }).click()
      await page.getByText(`Rule ${index + 1} has a condition that is not complete.`).waitFor()
      await fields.getByLabel('Property').fill('plan')
      await fields.getByLabel('Value').fill(plan)
      await share(index + 1).fill('100')
      await fields.getByText(/^8 of \d+ people match$/).waitFor()
    }
    await window.press('Use variants')
    await window.press('+ Variant')
    const variant = (number: number) => page.getByRole('region', { name: `Variant ${number}` })
    for (const [index, percent] of [33, 33, 34].entries()) {
      await variant(index + 1)
        .getByLabel('Share in %', { exact: true })
        .fill(String(percent))
    }
    await variant(3)
      .getByLabel(/^Payload of/)
      .fill('{\n"price": 9')
    await variant(3).getByText('Line 2: a comma or } is missing.').waitFor()
    t.equal(await page.getByRole('button', { name: 'Review and save' }).isDisabled(), true)
    await variant(3)
      .getByLabel(/^Payload of/)
      .fill('{"price": 9}')
    await rule(2).getByLabel('Variant').selectOption('variant-3')
    // A renamed variant keeps its payload, and so does the rule that always serves it.
    await variant(3).getByLabel('Variant', { exact: true }).fill('cheap')
    t.equal(await variant(3).getByLabel('Payload of cheap').inputValue(), '{"price": 9}')
    await review()
    t.strictSame(await sentences(), [
      'Switched on.',
      'Rule 1: Everyone → people where plan is pro.',
      'Rule 1, people where plan is pro: 0 % → 100 %.',
      'Rule 2 added: People where plan is free, always cheap.',
      'Variants added: control (33 %), test (33 %), cheap (34 %).',
      'Payload of cheap added.',
    ])
    await page.getByText('Gain the flag: 16.').waitFor()
    await window.answer('Save now')
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
  })

  t.test('a flag can be created and enabled with the keyboard alone', async (t) => {
    const press = (...keys: readonly string[]) =>
      keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve())
    await window.open('/p/1/web')
    await window.settled()
    await press('g', 'f')
    await page.getByRole('heading', { name: 'Flags', exact: true }).waitFor()
    await tabTo(t, window, /New flag/)
    await press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.type('by-keys')
    await press('Enter')
    await page.getByRole('heading', { name: 'by-keys' }).waitFor()
    await tabTo(t, window, /^Rule 1: \+ Condition$/)
    await press('Enter')
    await press('Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab')
    await tabTo(t, window, /^Rule 1: Property$/)
    await page.keyboard.type('plan')
    await tabTo(t, window, /^Rule 1: Value$/)
    await page.keyboard.type('team')
    await tabTo(t, window, /^Rule 1: Share in %$/)
    await press('Control+a')
    await page.keyboard.type('100')
    await tabTo(t, window, /^Flag: Description/)
    await page.keyboard.type('By keys')
    await tabTo(t, window, /Switch the flag on/)
    await press('Space')
    await press('Shift+Tab', 'Enter')
    // The review asks for a reason, and Enter saves.
    await page.getByRole('dialog').waitFor()
    await page.keyboard.type('For the team')
    await press('Enter')
    await saved('by-keys')
    const { id, name, active, filters } = await storedFlag('by-keys')
    t.match({ name, active }, { name: 'By keys', active: true })
    t.match(filters.groups, [{ properties: [planIs('team')], rollout_percentage: 100 }])
    t.equal((await decide('by-keys', 'person-2'))?.enabled, true)
    t.equal((await decide('by-keys', 'person-1'))?.enabled, false)
    await window.open(`/p/1/flags/${id}?tab=history`)
    await page.locator('.history blockquote', { hasText: 'For the team' }).waitFor()
    window.isSilent(t)
  })

  t.test('the switch in the list toggles the flag, and can be taken back', async (t) => {
    await makeFlag('switched')
    await window.open('/p/1/flags?search=switched')
    await page.locator('main tbody tr').first().locator('label').click()
    await page.getByText('switched is off.').waitFor()
    t.equal((await storedFlag('switched')).active, false)
    t.equal(new URL(page.url()).pathname, '/p/1/flags')
    await page.locator('.toast').getByRole('button', { name: 'Undo' }).click()
    await page.getByText('switched is on again.').waitFor()
    t.equal((await storedFlag('switched')).active, true)
    // The list is loaded again after the message, so the switch may follow a moment later.
    await page.getByRole('switch', { name: 'switched is on', checked: true }).waitFor()
    window.isSilent(t)
  })

  t.test('a review lists exactly the persons whose value changes', async (t) => {
    const { id } = await makeFlag('rehearsed')
    const before = await decideAll('rehearsed')
    await window.open(`/p/1/flags/${id}?tab=edit`)
    await share(1).fill('50')
    await window.press('+ Rule')
    await rule(2).getByRole('button', { name: '+ Condition' }).click()
    await rule(2).getByLabel('Property').fill('plan')
    await rule(2).getByLabel('Value').fill('free')
    await share(2).fill('30')
    await review()
    await page.locator('.table[aria-label=Examples] a').first().waitFor()
    const flips = await window.rows('Changes')
    const examples = await window.rows('Examples')
    t.strictSame(await decideAll('rehearsed'), before, 'nothing is saved yet')
    await window.answer('Save now')
    await saved('rehearsed')
    const after = await decideAll('rehearsed')
    const word = (value: string | undefined) => (value === 'true' ? 'on' : 'off')
    const flipped = PERSONS.filter((who) => before.get(who) !== after.get(who))
    t.ok(flipped.length > 2, 'the value changes for several persons')
    const wanted = flipped.map((who) => {
      const email = `${who.replace('person-', 'p')}@shop.test`
      return [email, word(before.get(who)), word(after.get(who))].join()
    })
    t.strictSame(examples.map((cells) => cells.join()).sort(), wanted.sort())
    const counted = flips.reduce((all, [, , count]) => all + Number(count), 0)
    t.equal(counted, flipped.length)

    await page.locator('.toast').getByRole('button', { name: 'Undo' }).click()
    await page.getByText('The change of rehearsed is undone.').waitFor()
    t.strictSame(await decideAll('rehearsed'), before, 'the change is taken back')
    window.isSilent(t)
  })

  t.test('the page and the command line give the same decisions', async (t) => {
    const { id } = await storedFlag('price')
    for (const who of ['person-0', 'person-1', 'person-2', 'nobody']) {
      await window.open(`/p/1/flags/${id}?tab=explain`)
      const answered = page.waitForResponse(/\/explain\//)
      await page.getByLabel('Person', { exact: true }).fill(who)
      await page.getByLabel('Person', { exact: true }).press('Enter')
      const answer: unknown = await (await answered).json()
      const words = ['flag', 'explain', 'price', '--distinct-id', who, '--json']
      const told = linesOf(await runCommand(...words, '--data-dir', dataDir))
      t.strictSame([answer], told, who)
      const { value, conditions } = told[0] as {
        value: unknown
        conditions: readonly { outcome: string }[]
      }
      await page.locator('.outcomes').waitFor()
      const badge = await page.locator('.below-tabs .badge').innerText()
      t.equal(badge, value === false ? 'off' : String(value), who)
      t.equal(await page.locator('.outcomes > li').count(), conditions.length)
      const warning = page.getByText('There is no such person')
      t.equal(await warning.count(), who === 'nobody' ? 1 : 0, who)
    }
    window.isSilent(t)
  })

  t.test('a user is found by e-mail, and each rule says why it matches or not', async (t) => {
    const { id } = await storedFlag('price')
    await window.open(`/p/1/flags/${id}?tab=explain&who=p0@shop.test`)
    await page.locator('.outcomes').waitFor()
    t.match(
      await page.locator('.below-tabs').innerText(),
      /p0@shop\.test gets\s+cheap\s+because rule 2 matches/,
    )
    await page.getByLabel('Person', { exact: true }).fill('p1@sh')
    await page.getByRole('option', { name: /p1@shop\.test/ }).click()
    t.equal(new URL(page.url()).searchParams.get('who'), 'person-1')
    await page.getByText('plan is pro (the value is pro)').waitFor()
    await page.getByLabel('Person', { exact: true }).fill('stranger@shop.test')
    await page.getByLabel('Person', { exact: true }).press('Enter')
    await page.getByText('There is no such person').waitFor()
    window.isSilent(t)
  })

  t.test(
    'a click on a flag of a person leads to the reason, and looking counts no decision',
    async (t) => {
      const { id } = await storedFlag('price')
      const person = await askApi<{ results: { uuid: string }[] }>(
        daemon,
        'GET',
        'projects/1/persons/?distinct_id=person-1',
      )
      const before = await decisionsOf(id)
      t.ok(before > 0)
      await window.open(`/p/1/persons/${person.results[0]?.uuid}`)
      // Cards that are loaded later move the row, and a click on a row that moves opens nothing.
      await page.locator('.table[aria-label=Flags] tr', { hasText: 'price' }).waitFor()
      await window.settled()
      await page.locator('.table[aria-label=Flags] tr', { hasText: 'price' }).click()
      await page.getByText('because rule 1 matches').waitFor()
      const { pathname, searchParams } = new URL(page.url())
      t.equal(pathname, `/p/1/flags/${id}`)
      t.equal(searchParams.get('who'), 'person-1')
      t.equal(await decisionsOf(id), before)
      await decide('price', 'person-1')
      t.equal(await decisionsOf(id), before + 1, 'a decision for an SDK is counted')
      window.isSilent(t)
    },
  )

  t.test('rules on cohorts are made, and are read by the name of the cohort', async (t) => {
    const inPro = { key: 'id', type: 'cohort', value: made.cohort }
    const groups = [{ properties: [inPro], rollout_percentage: 100 }]
    const { id } = await makeFlag('by-cohort', { filters: { groups } })
    await window.open(`/p/1/flags/${id}`)
    await page.getByText('People in the cohort Pro').first().waitFor()
    await page.getByText(/^8 of \d+ people match$/).waitFor()
    await window.press('Edit')
    await rule(1).getByLabel('Comparison').selectOption('is not in')
    await rule(1).getByText('People not in the cohort Pro').waitFor()
    await save()
    await saved('by-cohort')
    t.equal((await decide('by-cohort', 'person-1'))?.enabled, false)
    t.equal((await decide('by-cohort', 'person-0'))?.enabled, true)

    await window.open(`/p/1/flags/${(await makeFlag('to-cohort')).id}?tab=edit`)
    await rule(1).getByLabel('Condition on').selectOption('Cohort')
    await rule(1).getByLabel('Cohort', { exact: true }).selectOption('Pro')
    await rule(1).getByRole('button', { name: '+ Condition' }).click()
    await rule(1).getByLabel('Condition on').nth(1).selectOption('Individual people')
    await rule(1).getByLabel('Add a person').fill('p4@')
    await rule(1)
      .getByRole('option', { name: /p4@shop/ })
      .click()
    await rule(1).getByText('People in the cohort Pro where distinct ID is person-4').waitFor()
    await save()
    await saved('to-cohort')
    const decisions = await decideAll('to-cohort')
    t.strictSame(
      PERSONS.filter((who) => decisions.get(who) === 'true'),
      ['person-4'],
    )
    window.isSilent(t)
  })

  t.test('a flag for companies is created, and decides for them', async (t) => {
    await window.open('/p/1/flags?new=1')
    await page.getByLabel('Key', { exact: true }).fill('for-companies')
    await page.getByLabel('Decides for').selectOption('companies')
    await window.answer('Create flag')
    await rule(1).getByText('All companies').waitFor()
    await rule(1).getByRole('button', { name: '+ Condition' }).click()
    await rule(1).getByLabel('Condition on').selectOption('Individual companies')
    await rule(1).getByLabel('Add a company').selectOption('g5')
    await share(1).fill('100')
    await page.getByLabel('Switch the flag on with this change').check()
    await rule(1)
      .getByText(/^1 of \d+ companies match$/)
      .waitFor()
    await review()
    await page.getByText('Gain the flag: 1.').waitFor()
    await window.answer('Save now')
    await saved('for-companies')
    const asked = { token: PROJECT_KEY, distinct_id: 'person-1', flag_keys: ['for-companies'] }
    const value = async (company: string) => {
      const body = { ...asked, groups: { company } }
      const answer = jsonOf(await postJson(`${daemon.url}/flags/?v=2`, body))
      return (answer as { flags: Record<string, Decision> }).flags['for-companies']?.enabled
    }
    t.equal(await value('g5'), true)
    t.equal(await value('other'), false)
    const { id } = await storedFlag('for-companies')
    await window.open(`/p/1/flags/${id}?tab=explain&who=person-1`)
    await page.getByText('needs a group, and none is given').first().waitFor()
    await page.getByLabel('As a member of the company').selectOption('g5')
    await page.getByText('because rule 1 matches').waitFor()
    window.isSilent(t)
  })

  t.test('rules change their order, and a border between variants moves', async (t) => {
    const { id } = await makeFlag('ordered', {
      filters: {
        groups: [
          { properties: [planIs('pro')], rollout_percentage: 100, variant: 'control' },
          { properties: [], rollout_percentage: 100, variant: 'test' },
        ],
        multivariate: {
          variants: ['control', 'test'].map((key) => ({ key, rollout_percentage: 50 })),
        },
      },
    })
    t.match(await decide('ordered', 'person-1'), { variant: 'control' })
    await window.open(`/p/1/flags/${id}?tab=edit`)
    await page.getByRole('button', { name: 'Move rule 2 up' }).click()
    const border = page.getByRole('separator', { name: 'Border between control and test' })
    await border.focus()
    await page.keyboard.press('PageUp')
    t.equal(await border.getAttribute('aria-valuenow'), '60')
    const bar = await page.locator('.variant-bar').boundingBox()
    const { x = 0, y = 0, width = 0 } = bar ?? {}
    await border.hover()
    await page.mouse.down()
    await page.mouse.move(x + width * 0.75, y + 10, { steps: 5 })
    await page.mouse.up()
    t.equal(await border.getAttribute('aria-valuenow'), '75')
    await review()
    t.strictSame(await sentences(), [
      'The order of the rules changed.',
      'Shares of variants: control 50 % → 75 %, test 50 % → 25 %.',
    ])
    await window.answer('Save now')
    await saved('ordered')
    t.match(await decide('ordered', 'person-1'), { variant: 'test' })
    window.isSilent(t)
  })

  t.test('unsaved changes are never lost without a question', async (t) => {
    const { id } = await makeFlag('unsaved')
    const edit = `/p/1/flags/${id}?tab=edit`
    const asksToClose = () =>
      page.evaluate(
        `!dispatchEvent(Object.assign(new Event('beforeunload', { cancelable: true })))`,
      )
    await window.open('/p/1/flags')
    await window.open(edit)
    await page.getByText('No changes').waitFor()
    t.equal(await asksToClose(), false)
    await description().fill('Half done')
    await page.getByText('Not saved yet').waitFor()
    t.equal(await asksToClose(), true)

    await page.getByRole('link', { name: 'Web', exact: true }).click()
    const dialog = page.getByRole('dialog', { name: 'Leave without saving?' })
    await dialog.waitFor()
    t.equal(new URL(page.url()).pathname, `/p/1/flags/${id}`)
    await page.keyboard.press('Enter')
    await dialog.waitFor({ state: 'detached' })
    t.equal(await description().inputValue(), 'Half done', 'Enter keeps editing')

    await page.getByRole('link', { name: 'Web', exact: true }).click()
    await window.answer('Leave and keep the changes')
    await page.getByRole('heading', { name: 'Web', exact: true }).waitFor()
    await window.open(`/p/1/flags/${id}`)
    await window.press('Continue editing')
    t.equal(await description().inputValue(), 'Half done', 'the tab has kept the draft')

    // The back button asks as well.
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.reload()
    await window.press('Continue editing')
    await page.getByRole('link', { name: 'Flags', exact: true }).click()
    await window.answer('Discard changes')
    await page.getByRole('heading', { name: 'Flags', exact: true }).waitFor()
    await page.getByRole('row', { name: /unsaved/ }).click()
    await page.getByRole('link', { name: 'Edit' }).click()
    t.equal(await description().inputValue(), 'unsaved', 'the draft is gone')
    await description().fill('Again')
    await page.getByText('Not saved yet').waitFor()
    await page.goBack()
    await page.goBack()
    await dialog.waitFor()
    t.equal(new URL(page.url()).pathname, `/p/1/flags/${id}`)
    await window.answer('Discard changes')
    await page.getByRole('heading', { name: 'Flags', exact: true }).waitFor()
    t.equal((await storedFlag('unsaved')).name, 'unsaved')
    window.isSilent(t)
  })

  t.test(
    'if two users edit a flag, the second one sees both versions and loses no input',
    async (t) => {
      const { id } = await makeFlag('shared')
      const edit = `/p/1/flags/${id}?tab=edit`
      const other = await openWindow(browser, { url: daemon.url })
      for (const one of [window, other]) await one.open(edit)
      await description(other).fill('Of the first')
      await other.page.getByLabel('Tags').fill('first')
      await share(1, other).fill('70')
      await description().fill('Of the second')
      await page.getByLabel('Tags').fill('second, kept')
      await save(other)
      await saved('shared', other)
      await save()
      const dialog = page.getByRole('dialog', { name: 'Somebody else changed this flag' })
      await dialog.waitFor()
      t.strictSame(await sentences('Their changes'), [
        'Rule 1, people where plan is pro: 100 % → 70 %.',
        'Description: shared → Of the first.',
        'Tags: none → first.',
      ])
      t.strictSame(await sentences('Your changes'), [
        'Description: shared → Of the second.',
        'Tags: none → second, kept.',
      ])
      t.equal(await dialog.locator('button.primary').count(), 1, 'one main button')
      t.match(await storedFlag('shared'), { name: 'Of the first', tags: ['first'] })
      await window.answer('Keep editing')
      await dialog.waitFor({ state: 'detached' })
      t.equal(await description().inputValue(), 'Of the second', 'the input is still there')
      t.equal(await page.getByLabel('Tags').inputValue(), 'second, kept')
      await save()
      await window.answer('Overwrite with mine')
      await saved('shared')
      const stored = await storedFlag('shared')
      t.match(stored, { name: 'Of the second', tags: ['second', 'kept'] })
      t.match(
        stored.filters.groups,
        [{ rollout_percentage: 70 }],
        'a field that only the first user changed',
      )

      // Changes of different fields do not conflict, and neither change undoes the other.
      for (const one of [window, other]) await one.open(edit)
      await description().fill('Only a name')
      await other.page.getByLabel('Tags').fill('only tags')
      await save(other)
      await saved('shared', other)
      await save()
      await saved('shared')
      t.match(await storedFlag('shared'), { name: 'Only a name', tags: ['only tags'] })

      for (const one of [window, other]) await one.open(edit)
      await description(other).fill('Again')
      await description().fill('Of the second')
      await save()
      await saved('shared')
      await save(other)
      await other.answer('Use theirs')
      await other.page.getByRole('link', { name: 'Edit' }).click()
      await other.shows(t, () => description(other).inputValue(), 'Of the second', 'theirs')
      t.ok(window.excuse(/409/) > 0)
      t.ok(other.excuse(/409/) > 0)
      t.strictSame([...window.complaints.splice(0), ...other.complaints], [])
    },
  )

  t.test('the history is told in sentences, and an earlier state is restored', async (t) => {
    const { id } = await makeFlag('told')
    const path = `projects/1/feature_flags/${id}/`
    const groups = [{ properties: [planIs('pro')], rollout_percentage: 50 }]
    await askApi(daemon, 'PATCH', path, { filters: { groups }, note: 'Too many complaints' })
    await askApi(daemon, 'PATCH', path, { tags: ['q4'] })
    await window.open(`/p/1/flags/${id}?tab=history`)
    await page.getByText('Too many complaints').waitFor()
    t.strictSame(await page.locator('.history ul li').allInnerTexts(), [
      'Tags: none → q4.',
      'Rule 1, people where plan is pro: 100 % → 50 %.',
      'Created.',
    ])
    await window.press('Restore')
    t.strictSame(await sentences(), ['Rule 1, people where plan is pro: 50 % → 100 %.'])
    await window.answer('Save now')
    await saved('told')
    t.match(await storedFlag('told'), {
      tags: ['q4'],
      filters: { groups: [{ rollout_percentage: 100 }] },
    })
    window.isSilent(t)
  })

  t.test('a roll-out of the last rule is reviewed and saved from the overview', async (t) => {
    const groups = [
      { properties: [planIs('free')], rollout_percentage: 100 },
      { properties: [planIs('pro')], rollout_percentage: 10 },
    ]
    const { id } = await makeFlag('rolled', { filters: { groups } })
    await window.open(`/p/1/flags/${id}`)
    await page.getByText(/The flag reaches (\d+) of \d+ people/).waitFor()
    await window.press('100 %')
    t.strictSame(await sentences(), ['Rule 2, people where plan is pro: 10 % → 100 %.'])
    await window.answer('Save now')
    await saved('rolled')
    await page.getByText(/The flag reaches 16 of \d+ people/).waitFor()
    t.match((await storedFlag('rolled')).filters.groups, [{}, { rollout_percentage: 100 }])
    window.isSilent(t)
  })

  t.test('a flag is duplicated, and its code can be copied', async (t) => {
    const { id } = await makeFlag('origin', { tags: ['copied'] })
    await window.open(`/p/1/flags/${id}`)
    await page.locator('main').getByText('More').click()
    await window.press('Copy code')
    await page.getByText('isFeatureEnabled("origin")').waitFor()
    await page.keyboard.press('Escape')
    await window.press('Duplicate')
    t.equal(await page.getByLabel('Key of the copy').inputValue(), 'origin-copy')
    await window.answer('Duplicate')
    await page.getByRole('heading', { name: 'origin-copy' }).waitFor()
    t.match(await storedFlag('origin-copy'), {
      active: false,
      tags: ['copied'],
      filters: { groups: [{ properties: [planIs('pro')] }] },
    })
    window.isSilent(t)
  })

  t.test('the list shows use, and is narrowed by tag, owner and state', async (t) => {
    await decide('origin', 'person-1')
    await window.open('/p/1/flags?search=origin')
    const row = page.getByRole('row', { name: /^origin is on/ })
    await row.getByText('100 % of a segment').waitFor()
    t.match((await row.innerText()).split(/\s+/), [/./])
    await page.getByRole('button', { name: 'Show flags with the tag copied' }).first().click()
    await page.getByRole('button', { name: 'Remove the filter: Tag is copied' }).waitFor()
    t.equal((await window.rows('Feature flags')).length, 2)
    await row.getByRole('button', { name: 'Owner' }).click()
    await page.getByRole('button', { name: /Remove the filter: Owner is/ }).waitFor()
    t.equal((await window.rows('Feature flags')).length, 2)
    await page.getByRole('button', { name: 'Remove the filter: Tag is copied' }).click()
    await window.open('/p/1/flags?order=key')
    await page.locator('main tbody tr').first().waitFor()
    const keys = (await window.rows('Feature flags')).map(([, name = '']) => name.split('\n')[0])
    t.strictSame(keys, [...keys].sort())
    await page.getByRole('link', { name: 'Ready to remove' }).click()
    await page.getByText('No flag is ready to remove.').waitFor()
    window.isSilent(t)
  })

  t.test('dialogs focus their first field, and the palette takes letters at once', async (t) => {
    await window.open('/p/1/web')
    await window.settled()
    await page.keyboard.press('Control+k')
    await page.keyboard.type('origin-c')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'origin-copy' }).waitFor()
    await page.keyboard.press('Control+k')
    await page.keyboard.type('p7@shop')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'p7@shop.test' }).waitFor()
    await page.keyboard.press('Control+k')
    await page.keyboard.type('new flag')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'New flag' }).waitFor()
    const focused = () => page.evaluate('document.activeElement.labels?.[0]?.textContent')
    t.equal(await focused(), 'Key')
    // A button that deletes has no focus, so a second Enter deletes nothing.
    const { id } = await makeFlag('safe')
    await window.open(`/p/1/flags/${id}`)
    await page.locator('main').getByText('More').click()
    await window.press('Delete')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Enter')
    await page.keyboard.press('Escape')
    t.equal((await storedFlag('safe')).active, true)
    window.isSilent(t)
  })

  t.test('Audit lists the changes of flags and the refused attempts', async (t) => {
    const created = (source: string) => `${source}: created`
    const patched = 'Console: changed'
    const refused = 'Console: tried to change, but was refused'
    await window.open('/audit')
    await page.getByLabel('Member, change or address').fill('the flag')
    const changes: Readonly<Record<string, readonly string[]>> = {
      price: [created('Console'), patched],
      rehearsed: [created('API'), patched, patched],
      shared: [
        created('API'),
        patched,
        refused,
        refused,
        patched,
        patched,
        patched,
        patched,
        refused,
      ],
    }
    for (const [key, wanted] of Object.entries(changes)) {
      const { id } = await storedFlag(key)
      const rows = async () =>
        (await window.rows('Changes'))
          .filter(([, , what = '']) =>
            new RegExp(` the flag ${id}(, but was refused)?$`).test(what),
          )
          .map(([, member, what = '', project, through = '']) => {
            t.match([member, project, through], ['owner@localhost', /./, /, 127\.0\.0\.1$/])
            return `${through.split(',')[0]}: ${what.replace(` the flag ${id}`, '')}`
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
    await page.locator('main').getByText('More').click()
    await window.press('Delete')
    await window.answer('Delete the flag')
    await page.waitForURL('**/p/1/flags')
    t.strictSame(sent, ['{"deleted":true}'])
    t.equal(await decide('gone', 'person-1'), undefined)
    window.isSilent(t)
  })

  t.test('input survives while the daemon is away', async (t) => {
    const { id } = await makeFlag('typed')
    await window.open(`/p/1/flags/${id}?tab=edit`)
    await description().fill('Typed while it was away')
    await daemon.stop()
    await save()
    const banner = page.getByText('Tenrec does not answer. Your input is kept, and this page')
    await banner.waitFor()
    t.equal(await description().inputValue(), 'Typed while it was away')
    const again = await spawnDaemon({ dataDir, args: onPort })
    t.teardown(() => again.stop())
    await banner.waitFor({ state: 'detached' })
    await window.answer('Save now')
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
