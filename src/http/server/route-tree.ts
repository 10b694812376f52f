/** Finds the handler of a path by the rules of uWebSockets.js. It is used with `node:http`, which has no router. */

/** The handler that was found for a path, with the parameters in the path. */
export interface FoundRoute<Handler> {
  readonly handler: Handler
  /** The path segments that take the place of parameters, still percent-encoded. */
  readonly parameters: readonly string[]
}

interface Node<Handler> {
  readonly fixed: Map<string, Node<Handler>>
  parameter: Node<Handler> | null
  /** The handler of the path that ends at this node. Null if no path does. */
  handler: Handler | null
  /** The handler of all paths that continue after this node (`*`). Null if there is none. */
  rest: Handler | null
}

const NO_PARAMETERS: readonly string[] = []

/**
 * A table of paths and their handlers. `:name` matches one segment that is not empty, and `*` at the end matches any
 * number of segments. If several paths match, a fixed segment has precedence over a parameter, and a parameter over
 * `*`.
 */
export class RouteTree<Handler> {
  readonly #root = newNode<Handler>()
  /** The paths without parameters. They are looked up directly, because most requests are for one of them. */
  readonly #fixed = new Map<string, FoundRoute<Handler>>()

  /** Sets the handler of a path. A later call for the same path replaces it. */
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

  /** Returns the handler of a path that begins with a slash, or null if no route matches. */
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

/**
 * Searches the tree below `node`. The recursion is at most as deep as the longest route, however long the requested
 * path is.
 */
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
