/**
 * Reads Markdown into a tree of blocks and spans. It supports the common part of CommonMark: headings, paragraphs,
 * lists, quotes, code, rules, emphasis and links. HTML and images are left as text. The tree consists of plain data, so
 * that no text of a user can become markup.
 */

/** A span: a part of a line with one format. */
export type Span =
  | string
  | { readonly kind: 'strong' | 'em' | 'del'; readonly spans: readonly Span[] }
  | { readonly kind: 'code'; readonly text: string }
  | { readonly kind: 'link'; readonly href: string; readonly spans: readonly Span[] }
  | { readonly kind: 'break' }

/** A block: consecutive lines with one format. */
export type Block =
  | { readonly kind: 'heading'; readonly level: number; readonly spans: readonly Span[] }
  | { readonly kind: 'paragraph'; readonly spans: readonly Span[] }
  | {
      readonly kind: 'list'
      readonly isNumbered: boolean
      readonly start: number
      readonly items: readonly (readonly Block[])[]
    }
  | { readonly kind: 'quote'; readonly blocks: readonly Block[] }
  | { readonly kind: 'code'; readonly text: string }
  | { readonly kind: 'rule' }

/** Blocks and spans that are nested deeper stay text. This limits the depth of the recursion. */
const DEPTH_MAX = 8
const FENCE = /^ {0,3}(```|~~~)/
const HEADING = /^ {0,3}(#{1,6})\s+(\S.*)$/s
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/
const QUOTE = /^ {0,3}> ?/
const ITEM = /^( {0,3})(?:[-*+]|(\d{1,9})[.)])\s+(?=\S)/

/**
 * Removes the number signs and blanks at the end of a heading. With a single regular expression for both, a title with
 * many blanks could take very long.
 */
function withoutMarks(title: string): string {
  return title
    .trimEnd()
    .replace(/(?<!#)#+$/, '')
    .trimEnd()
}

/** Returns the blocks of a text. */
export function markdownBlocks(text: string, depth = 0): readonly Block[] {
  const lines = text.split(/\r?\n/)
  const blocks: Block[] = []
  let at = 0
  /** Takes lines, from the current one on, as long as `fits` returns true for them. */
  const take = (fits: (line: string, index: number) => boolean): string[] => {
    const from = at
    while (at < lines.length && fits(lines[at] ?? '', at - from)) at++
    return lines.slice(from, at)
  }
  while (at < lines.length) {
    const line = lines[at] ?? ''
    const [, fence] = FENCE.exec(line) ?? []
    const [, marks, title = ''] = HEADING.exec(line) ?? []
    if (line.trim() === '') at++
    else if (fence !== undefined) {
      at++
      blocks.push({
        kind: 'code',
        text: take((one) => !one.trimStart().startsWith(fence)).join('\n'),
      })
      at++
    } else if (marks !== undefined) {
      at++
      blocks.push({
        kind: 'heading',
        level: marks.length,
        spans: markdownSpans(withoutMarks(title)),
      })
    } else if (RULE.test(line)) {
      at++
      blocks.push({ kind: 'rule' })
    } else if (depth < DEPTH_MAX && QUOTE.test(line)) {
      const inner = take((one) => QUOTE.test(one)).map((one) => one.replace(QUOTE, ''))
      blocks.push({ kind: 'quote', blocks: markdownBlocks(inner.join('\n'), depth + 1) })
    } else if (depth < DEPTH_MAX && ITEM.test(line)) {
      blocks.push(
        listFrom(
          take((one, index) => index === 0 || ITEM.test(one) || /^ {2,}\S/.test(one)),
          depth,
        ),
      )
    } else {
      const isText = (one: string, index: number) =>
        index === 0 || !(one.trim() === '' || startsBlock(one, depth))
      const words = take(isText).map((one) => one.trimStart())
      blocks.push({ kind: 'paragraph', spans: markdownSpans(words.join('\n').trimEnd()) })
    }
  }
  return blocks
}

function startsBlock(line: string, depth: number): boolean {
  const isNested = depth < DEPTH_MAX && (QUOTE.test(line) || ITEM.test(line))
  return isNested || FENCE.test(line) || HEADING.test(line) || RULE.test(line)
}

/** Returns the list that some lines form. Indented lines belong to the item before them. */
function listFrom(lines: readonly string[], depth: number): Block {
  const items: string[][] = []
  for (const line of lines) {
    const mark = ITEM.exec(line)
    const isOwn = mark !== null && (mark[1] ?? '').length < 2
    if (isOwn || items.length === 0) items.push([line.replace(ITEM, '')])
    else items.at(-1)?.push(line.replace(/^ {1,4}/, ''))
  }
  const [, , number] = ITEM.exec(lines[0] ?? '') ?? []
  return {
    kind: 'list',
    isNumbered: number !== undefined,
    start: Number(number ?? 1),
    items: items.map((one) => markdownBlocks(one.join('\n'), depth + 1)),
  }
}

/**
 * Matches the next part of a line that is more than plain text. The names of its groups tell the format of the part.
 */
const SPAN =
  /\\(?<escaped>[\\`*_{}[\]()#+\-.!~>|])|(?<ticks>`+)(?<code>[^`]|[^`][\s\S]*?[^`])\k<ticks>(?!`)|\*\*(?<strong>(?=\S)[\s\S]*?\S)\*\*|(?<![\p{L}\p{N}_])__(?<strong2>(?=\S)[\s\S]*?\S)__(?![\p{L}\p{N}_])|~~(?<del>(?=\S)[\s\S]*?\S)~~|\*(?<em>(?=[^\s*])[^*]*?[^\s*])\*|(?<![\p{L}\p{N}_])_(?<em2>(?=[^\s_])[^_]*?[^\s_])_(?![\p{L}\p{N}_])|\[(?<text>[^[\]]+)\]\((?<href>[^\s()]+)\)|(?<url>https?:\/\/[^\s<>()]*[^\s<>().,:;!?'"])|(?<end> {2,}\n|\\\n)/u

/** Returns the spans of a text that contains no blocks. */
function markdownSpans(text: string, depth = 0): readonly Span[] {
  const spans: Span[] = []
  let rest = text
  while (rest !== '') {
    const found = depth < DEPTH_MAX ? SPAN.exec(rest) : null
    if (found === null) break
    if (found.index > 0) spans.push(rest.slice(0, found.index))
    spans.push(spanOf(found, depth + 1))
    rest = rest.slice(found.index + found[0].length)
  }
  return rest === '' ? spans : [...spans, rest]
}

function spanOf({ 0: whole, groups = {} }: RegExpExecArray, depth: number): Span {
  const { escaped, code, strong, strong2, del, em, em2, text, href, url, end } = groups
  if (escaped !== undefined) return escaped
  if (code !== undefined) return { kind: 'code', text: code }
  if (end !== undefined) return { kind: 'break' }
  const bold = strong ?? strong2
  if (bold !== undefined) return { kind: 'strong', spans: markdownSpans(bold, depth) }
  if (del !== undefined) return { kind: 'del', spans: markdownSpans(del, depth) }
  const slanted = em ?? em2
  if (slanted !== undefined) return { kind: 'em', spans: markdownSpans(slanted, depth) }
  const target = webUrl(href ?? url)
  if (target === null) return whole
  return {
    kind: 'link',
    href: target,
    spans: text === undefined ? [whole] : markdownSpans(text, depth),
  }
}

/**
 * Returns the absolute URL of a link if it begins with http or https. Returns null for all others, such as
 * `javascript:`.
 */
function webUrl(href: string | undefined): string | null {
  if (href === undefined || !/^https?:\/\//i.test(href) || !URL.canParse(href)) return null
  return new URL(href).href
}
