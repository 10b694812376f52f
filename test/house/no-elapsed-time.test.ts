/**
 * No test asserts how long something took. A machine that is busy with other work would fail it, and speed is measured
 * in `bench/`. Assert an order of events, a counter, or a state that is awaited, or give the code a clock of the test.
 *
 * A reading of the clock is a *moment*. A difference or a comparison of moments is an *elapsed time*, and so is
 * everything that is computed from one. Both are followed through variables, properties, lists and functions of a file,
 * and from a fixture into the files that import it. Timestamps as data, and waits with a deadline, are allowed.
 *
 * @lane quick
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import ts from 'typescript'

const CLOCK_READINGS = /^(performance\.now|Date\.now|(process\.)?hrtime(\.bigint)?)$/
const CLOCK_IN_TEXT = /performance\.now|Date\.now|hrtime/
/** Methods of a test, and of `node:assert`, that compare their arguments. */
const ASSERTIONS = new Set(
  (
    'ok notOk equal not same notSame strictSame strictNotSame match notMatch matchOnly matchStrict has hasStrict ' +
    'notHas hasProp type deepEqual deepStrictEqual strictEqual notEqual notStrictEqual assert fail'
  ).split(' '),
)
/** Functions with a result computed from their arguments. Results of other functions are data. */
const COMPUTATIONS = /^(Math\.\w+|Number|String|BigInt|assert|assert\.ok)$/
const COMPARISONS = new Set([
  ts.SyntaxKind.LessThanToken,
  ts.SyntaxKind.LessThanEqualsToken,
  ts.SyntaxKind.GreaterThanToken,
  ts.SyntaxKind.GreaterThanEqualsToken,
])
const EQUALITIES = new Set([
  ts.SyntaxKind.EqualsEqualsEqualsToken,
  ts.SyntaxKind.ExclamationEqualsEqualsToken,
])
/** Facts spread one step in a round: from a variable to a list, from there to a function, and so on. */
const ROUNDS = 4

/** The kinds of value that an expression holds, the strongest last. */
type Kind = 'nothing' | 'moment' | 'elapsed'
const STRENGTHS: readonly Kind[] = ['nothing', 'moment', 'elapsed']

/** Properties, methods and exported functions of a file that hold or return a time, by name. */
type Members = ReadonlyMap<string, Kind>

function strongest(kinds: readonly Kind[]): Kind {
  return kinds.reduce(
    (most, kind) => (STRENGTHS.indexOf(kind) > STRENGTHS.indexOf(most) ? kind : most),
    'nothing',
  )
}

function visit(node: ts.Node, see: (node: ts.Node) => void): void {
  see(node)
  ts.forEachChild(node, (child) => visit(child, see))
}

type Callable =
  | ts.FunctionDeclaration
  | ts.FunctionExpression
  | ts.ArrowFunction
  | ts.MethodDeclaration

function isCallable(node: ts.Node): node is Callable {
  return (
    ts.isFunctionDeclaration(node) ||
    ts.isFunctionExpression(node) ||
    ts.isArrowFunction(node) ||
    ts.isMethodDeclaration(node)
  )
}

/** Follows times through one file. */
class TimeFlow {
  readonly members = new Map<string, Kind>()
  readonly #tree: ts.SourceFile
  /** Maps scope and name to the kind of value that the name holds there. */
  readonly #scopes = new Map<ts.Node, Map<string, Kind>>()

  constructor(tree: ts.SourceFile, imported: Members) {
    this.#tree = tree
    visit(tree, (node) => this.#declare(node, 'nothing'))
    for (const [name, kind] of imported) this.members.set(name, kind)
    for (let round = 0; round < ROUNDS; round++) visit(tree, (node) => this.#learn(node))
  }

  /** Every assertion on an elapsed time, as `line what`. */
  offences(): readonly string[] {
    const found: string[] = []
    const note = (node: ts.Node, what: string): void => {
      const { line } = this.#tree.getLineAndCharacterOfPosition(node.getStart(this.#tree))
      found.push(`${line + 1} ${what}`)
    }
    visit(this.#tree, (node) => {
      if (ts.isCallExpression(node) && this.#isAssertion(node)) {
        const isElapsed = node.arguments.some((argument) => this.#kindOf(argument) === 'elapsed')
        if (isElapsed) note(node, `${node.expression.getText()} depends on an elapsed time`)
      }
      if (ts.isIfStatement(node) && this.#fails(node.thenStatement)) {
        if (this.#comparesElapsed(node.expression)) note(node, 'fails after an elapsed time')
      }
    })
    return found
  }

  #isAssertion({ expression }: ts.CallExpression): boolean {
    if (ts.isIdentifier(expression)) return expression.text === 'assert'
    return ts.isPropertyAccessExpression(expression) && ASSERTIONS.has(expression.name.text)
  }

  #fails(statement: ts.Statement): boolean {
    let fails = false
    visit(statement, (node) => {
      if (ts.isThrowStatement(node)) fails = true
      if (ts.isCallExpression(node) && /\.fail$/.test(node.expression.getText())) fails = true
    })
    return fails
  }

  /** `performance.now() > deadline` is not one: that is a wait with an end. */
  #comparesElapsed(condition: ts.Expression): boolean {
    let does = false
    visit(condition, (node) => {
      if (!ts.isBinaryExpression(node) || !COMPARISONS.has(node.operatorToken.kind)) return
      if ([node.left, node.right].some((side) => this.#kindOf(side) === 'elapsed')) does = true
    })
    return does
  }

  #scopeOf(node: ts.Node): ts.Node {
    let scope = node.parent
    while (!ts.isBlock(scope) && !ts.isSourceFile(scope) && !ts.isFunctionLike(scope)) {
      if (ts.isForStatement(scope) || ts.isForOfStatement(scope)) break
      scope = scope.parent
    }
    return scope
  }

  #declare(node: ts.Node, kind: Kind): void {
    const isNamed =
      ts.isVariableDeclaration(node) ||
      ts.isParameter(node) ||
      ts.isBindingElement(node) ||
      ts.isFunctionDeclaration(node)
    if (!isNamed || node.name === undefined || !ts.isIdentifier(node.name)) return
    const scope = this.#scopeOf(node)
    const names = this.#scopes.get(scope) ?? new Map<string, Kind>()
    this.#scopes.set(scope, names)
    names.set(node.name.text, strongest([names.get(node.name.text) ?? 'nothing', kind]))
  }

  /** Returns the names of the nearest scope that declares one. */
  #namesOf(identifier: ts.Identifier): Map<string, Kind> | undefined {
    for (let node: ts.Node = identifier; node !== undefined; node = node.parent) {
      const names = this.#scopes.get(node)
      if (names?.has(identifier.text) === true) return names
    }
    return undefined
  }

  #learn(node: ts.Node): void {
    if (ts.isVariableDeclaration(node)) this.#learnDeclaration(node)
    if (ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node)) {
      const kind = this.#kindReturned(node)
      this.#declare(node, kind)
      if (node.name !== undefined) this.#learnMember(node.name.getText(), kind)
    }
    if (ts.isPropertyAssignment(node) || ts.isPropertyDeclaration(node)) {
      if (node.initializer !== undefined)
        this.#learnMember(node.name.getText(), this.#kindOf(node.initializer))
    }
    if (ts.isShorthandPropertyAssignment(node))
      this.#learnMember(node.name.text, this.#kindOf(node.name))
    if (ts.isBinaryExpression(node) && isAssignment(node.operatorToken.kind))
      this.#learnTarget(node.left, this.#kindOf(node.right))
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const { expression: list, name } = node.expression
      const kinds = node.arguments.map((argument) => this.#kindOf(argument))
      if (['push', 'add', 'set', 'unshift'].includes(name.text))
        this.#learnTarget(list, strongest(kinds))
    }
  }

  #learnDeclaration({ name, initializer }: ts.VariableDeclaration): void {
    if (initializer === undefined) return
    const kind = this.#kindOf(initializer)
    if (ts.isIdentifier(name)) this.#declare(name.parent, kind)
    else visit(name, (part) => this.#declare(part, kind))
  }

  #learnTarget(target: ts.Expression, kind: Kind): void {
    if (ts.isPropertyAccessExpression(target)) this.#learnMember(target.name.text, kind)
    if (!ts.isIdentifier(target)) return
    const names = this.#namesOf(target)
    names?.set(target.text, strongest([names.get(target.text) ?? 'nothing', kind]))
  }

  #learnMember(name: string, kind: Kind): void {
    if (kind === 'nothing') return
    this.members.set(name, strongest([this.members.get(name) ?? 'nothing', kind]))
  }

  #kindReturned(callable: Callable): Kind {
    const { body } = callable
    if (body === undefined) return 'nothing'
    if (!ts.isBlock(body)) return this.#kindOf(body)
    const kinds: Kind[] = []
    const see = (node: ts.Node): void => {
      if (isCallable(node)) return
      if (ts.isReturnStatement(node) && node.expression !== undefined)
        kinds.push(this.#kindOf(node.expression))
      ts.forEachChild(node, see)
    }
    ts.forEachChild(body, see)
    return strongest(kinds)
  }

  #kindOf(node: ts.Expression): Kind {
    if (ts.isIdentifier(node)) {
      // Names that no scope declares are imported.
      const names = this.#namesOf(node) ?? this.members
      return names.get(node.text) ?? 'nothing'
    }
    if (ts.isPropertyAccessExpression(node)) {
      return strongest([
        this.members.get(node.name.text) ?? 'nothing',
        this.#kindOf(node.expression),
      ])
    }
    if (ts.isElementAccessExpression(node)) return this.#kindOf(node.expression)
    if (ts.isCallExpression(node)) return this.#kindOfCall(node)
    if (ts.isBinaryExpression(node)) return this.#kindOfBinary(node)
    if (ts.isArrowFunction(node) || ts.isFunctionExpression(node)) return this.#kindReturned(node)
    if (ts.isConditionalExpression(node))
      return strongest([node.whenTrue, node.whenFalse].map((part) => this.#kindOf(part)))
    if (ts.isTemplateExpression(node))
      return strongest(node.templateSpans.map(({ expression }) => this.#kindOf(expression)))
    if (ts.isArrayLiteralExpression(node))
      return strongest(node.elements.map((element) => this.#kindOf(element)))
    if (ts.isObjectLiteralExpression(node)) {
      const values = node.properties.filter((property) => ts.isPropertyAssignment(property))
      return strongest(values.map(({ initializer }) => this.#kindOf(initializer)))
    }
    const isWrapped =
      ts.isParenthesizedExpression(node) ||
      ts.isAwaitExpression(node) ||
      ts.isAsExpression(node) ||
      ts.isNonNullExpression(node) ||
      ts.isSpreadElement(node)
    if (isWrapped) return this.#kindOf(node.expression)
    return ts.isPrefixUnaryExpression(node) ? this.#kindOf(node.operand) : 'nothing'
  }

  #kindOfCall({ expression, arguments: passed }: ts.CallExpression): Kind {
    const called = expression.getText(this.#tree)
    if (CLOCK_READINGS.test(called)) return 'moment'
    if (COMPUTATIONS.test(called)) {
      return strongest(passed.map((argument) => this.#kindOf(argument)))
    }
    return this.#kindOf(expression)
  }

  #kindOfBinary({ left, operatorToken, right }: ts.BinaryExpression): Kind {
    const kinds = [this.#kindOf(left), this.#kindOf(right)]
    const kind = strongest(kinds)
    const operator = operatorToken.kind
    if (kind === 'nothing' || COMPARISONS.has(operator)) {
      return kind === 'nothing' ? 'nothing' : 'elapsed'
    }
    if (EQUALITIES.has(operator)) return kind === 'elapsed' ? 'elapsed' : 'nothing'
    // A moment minus a constant, such as `Date.now() - HOUR_MS`, is a moment.
    if (operator === ts.SyntaxKind.MinusToken) return isConstant(right) ? kind : 'elapsed'
    return kind
  }
}

function isAssignment(operator: ts.SyntaxKind): boolean {
  const { FirstAssignment, LastAssignment } = ts.SyntaxKind
  return operator >= FirstAssignment && operator <= LastAssignment
}

/** A number that the source names: a literal, a name in capitals, or a product of them. */
function isConstant(node: ts.Expression): boolean {
  if (ts.isNumericLiteral(node)) return true
  if (ts.isIdentifier(node)) return /^[A-Z][A-Z0-9_]*$/.test(node.text)
  if (ts.isParenthesizedExpression(node)) return isConstant(node.expression)
  return ts.isBinaryExpression(node) && isConstant(node.left) && isConstant(node.right)
}

function parse(text: string): ts.SourceFile {
  return ts.createSourceFile('x.ts', text, ts.ScriptTarget.ES2023, true)
}

/** Returns the assertions of a source that depend on an elapsed time, as `line what`. */
function findElapsed(text: string, imported: Members = new Map()): readonly string[] {
  return new TimeFlow(parse(text), imported).offences()
}

t.test('an elapsed time is found in any assertion that depends on it', (t) => {
  const found = [
    't.ok(performance.now() - startedAtMs < 5000)',
    't.ok(Math.abs(Number(evaluatedAt) - Date.now()) < 60_000)',
    't.equal(Math.round(Date.now() - begin), 5)',
    't.ok(process.hrtime.bigint() - begin < 5n)',
    'const beganAtMs = performance.now(); t.ok(beganAtMs > 5)',
    'const elapsedMs = performance.now() - a; t.ok(elapsedMs < 5000, "soon")',
    'const tookMs = performance.now() - a; t.ok(isThere, "after " + Math.round(tookMs))',
    'const isSoon = performance.now() - a < 50; assert.ok(isSoon)',
    'let worst = 0; worst = Math.max(worst, performance.now() - a); t.ok(worst < 5)',
    'const waits = []; waits.push(performance.now() - a); t.ok((waits.at(-1) ?? 0) < 5)',
    'class A { slowestMs = 0; b() { this.slowestMs = Date.now() - c } } t.ok(new A().slowestMs < 5)',
    'const sentAtMs = Date.now(); t.ok(message.atMs - sentAtMs < 1000)',
    'async function timed() { return performance.now() - a } t.ok((await timed()) < 5)',
    'class A { async until() { return performance.now() - a } } t.ok((await new A().until()) < 5)',
    'const [half = 0] = [performance.now() - a]; t.ok(half < 5)',
    'if (performance.now() - a > 500) throw new Error("slow")',
    'const ms = performance.now() - a; if (ms > 500) t.fail("slow")',
  ]
  const allowed = [
    't.equal(codeOf({ deadlineMs: performance.now() - 1 }), "query_timeout")',
    't.equal(store.list(1, Date.now()).length, 1)',
    'const soonMs = Date.now() + 60_000; t.match(keyOf(soonMs), { expiresAtMs: soonMs })',
    'const beforeMs = Date.now() - 2 * DAY_MS; t.equal(eventAt(beforeMs).atMs, beforeMs)',
    'const deadline = performance.now() + 60_000; if (performance.now() > deadline) throw error',
    'while (!isMet() && performance.now() < deadline) await sleep(5); t.ok(isMet())',
    'const ms = performance.now() - a; t.comment(ms + " ms")',
    'function one() { const ms = performance.now() - a } function other(ms) { t.ok(ms < 5) }',
    't.ok(clock.ms - startedAtMs < 5)',
  ]
  t.strictSame(
    found.filter((source) => findElapsed(source).length === 0),
    [],
    'all of these are found',
  )
  t.strictSame(
    allowed.filter((source) => findElapsed(source).length > 0),
    [],
    'none of these is found',
  )
  const imported = new Map<string, Kind>([
    ['startMs', 'elapsed'],
    ['timed', 'elapsed'],
  ])
  t.strictSame(findElapsed('\nt.ok(daemon.startMs < 5)\nassert((await timed()) < 5)', imported), [
    '2 t.ok depends on an elapsed time',
    '3 assert depends on an elapsed time',
  ])
  t.end()
})

/** The files of a folder that are in version control, or would be after `git add .`. */
function listFiles(folder: string): readonly string[] {
  const options = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', folder]
  const output = execFileSync('git', options, { encoding: 'utf8', maxBuffer: 1 << 26 })
  return output.split('\0').filter((path) => path.endsWith('.ts') && existsSync(path))
}

t.test('no test asserts how long something took', (t) => {
  const texts = new Map(listFiles('test').map((path) => [path, readFileSync(path, 'utf8')]))
  const membersOf = new Map<string, Members>()
  for (const [path, text] of texts) {
    if (!path.startsWith('test/fixtures/') || !CLOCK_IN_TEXT.test(text)) continue
    const { members } = new TimeFlow(parse(text), new Map())
    membersOf.set(path, new Map([...members].filter(([, kind]) => kind === 'elapsed')))
  }
  const offences: string[] = []
  for (const [path, text] of texts) {
    const imports = [...text.matchAll(/ from '(\.[^']+)'/g)].map(([, name = '']) =>
      join(dirname(path), name),
    )
    const imported = new Map(imports.flatMap((name) => [...(membersOf.get(name) ?? [])]))
    // Without a reading of the clock, its own or that of a fixture, there is nothing to follow.
    if (imported.size === 0 && !CLOCK_IN_TEXT.test(text)) continue
    offences.push(...findElapsed(text, imported).map((offence) => `${path}:${offence}`))
  }
  t.strictSame(offences, [])
  t.end()
})
