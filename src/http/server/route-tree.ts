/** Finds the handler of a path by the rules of uWebSockets.js, for the front that has no router of its own. */

/** What is known of a path. */
export interface FoundRoute<Handler> {
  readonly handler: Handler
  /** What stands in the place of each parameter, still percent-encoded. */
  readonly parameters: readonly string[]
}

interface Node<Handler> {
  readonly fixed: Map<string, Node<Handler>>
  parameter: Node<Handler> | null
  /** The handler of a path that ends here. */
  handler: Handler | null
  /** The handler of any path that goes on here. */
  rest: Handler | null
}

const NO_PARAMETERS: readonly string[] = []

/**
 * Paths with their handlers. `:name` stands for one part that is not empty, `*` at the end for any rest. If several
 * paths fit, fixed parts go before parameters, and parameters before `*`.
 */
export class RouteTree<Handler> {
  readonly #root = newNode<Handler>()
  /** Paths without parameters: most requests are for one of them. */
  readonly #fixed = new Map<string, FoundRoute<Handler>>()

  /** Sets the handler of a path; the last one counts. */
  add(path: string, handler: Handler): void {
    let node = this.#root
    for (const part of path.slice(1).split('/')) {
      if (part === '*') {
        node.rest = handler
        return
      }
      node = part.startsWith(':') ? parameterOf(node) : childOf(node, part)
    }
    node.handler = handler
    if (!path.includes('/:')) this.#fixed.set(path, { handler, parameters: NO_PARAMETERS })
  }

  /** The handler of a path that begins with a slash; null when there is none. */
  find(path: string): FoundRoute<Handler> | null {
    return this.#fixed.get(path) ?? findBelow(this.#root, path.slice(1).split('/'), 0, [])
  }
}

function newNode<Handler>(): Node<Handler> {
  return { fixed: new Map(), parameter: null, handler: null, rest: null }
}

function childOf<Handler>(node: Node<Handler>, part: string): Node<Handler> {
  const found = node.fixed.get(part)
  if (found !== undefined) return found
  const child = newNode<Handler>()
  node.fixed.set(part, child)
  return child
}

function parameterOf<Handler>(node: Node<Handler>): Node<Handler> {
  node.parameter ??= newNode()
  return node.parameter
}

/** No deeper than the longest route, whatever the path is. */
function findBelow<Handler>(
  node: Node<Handler>,
  parts: readonly string[],
  index: number,
  parameters: readonly string[],
): FoundRoute<Handler> | null {
  const part = parts[index]
  if (part === undefined) {
    return node.handler === null ? null : { handler: node.handler, parameters }
  }
  const fixed = node.fixed.get(part)
  const found = fixed === undefined ? null : findBelow(fixed, parts, index + 1, parameters)
  if (found !== null) return found
  if (node.parameter !== null && part !== '') {
    const named = findBelow(node.parameter, parts, index + 1, [...parameters, part])
    if (named !== null) return named
  }
  return node.rest === null ? null : { handler: node.rest, parameters }
}
