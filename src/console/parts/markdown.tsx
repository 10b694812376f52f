/** Shows Markdown as elements of the page. All texts in it become text nodes, so that they cannot contain markup. */
import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import { type Block, markdownBlocks, type Span } from '../base/markdown.ts'

/** Shows a text in Markdown. Its headings have a lower level than the heading of the page. */
export function Markdown({ text }: { text: string }) {
  const blocks = useMemo(() => markdownBlocks(text), [text])
  return <div class="markdown">{blocks.map(blockOf)}</div>
}

/** The level of the largest heading within a text. */
const LEVEL_MIN = 2
const LEVEL_MAX = 6

function blockOf(block: Block, key: number): ComponentChildren {
  switch (block.kind) {
    case 'heading': {
      const Heading = `h${Math.min(LEVEL_MAX, block.level + LEVEL_MIN - 1)}` as 'h2'
      return <Heading key={key}>{block.spans.map(spanOf)}</Heading>
    }
    case 'paragraph':
      return <p key={key}>{block.spans.map(spanOf)}</p>
    case 'quote':
      return <blockquote key={key}>{block.blocks.map(blockOf)}</blockquote>
    case 'code':
      return (
        <pre key={key}>
          <code>{block.text}</code>
        </pre>
      )
    case 'rule':
      return <hr key={key} />
    case 'list': {
      const items = block.items.map((item, at) => <li key={at}>{itemOf(item)}</li>)
      return block.isNumbered ? (
        <ol key={key} start={block.start}>
          {items}
        </ol>
      ) : (
        <ul key={key}>{items}</ul>
      )
    }
  }
}

/**
 * Shows an item of a list. If it begins with a paragraph, the text of the paragraph is shown beside the mark of the
 * item, and not as a block of its own.
 */
function itemOf([first, ...rest]: readonly Block[]): ComponentChildren {
  if (first === undefined) return null
  return [first.kind === 'paragraph' ? first.spans.map(spanOf) : blockOf(first, -1), rest.map(blockOf)]
}

function spanOf(span: Span, key: number): ComponentChildren {
  if (typeof span === 'string') return span
  switch (span.kind) {
    case 'break':
      return <br key={key} />
    case 'code':
      return <code key={key}>{span.text}</code>
    case 'link':
      return (
        <a key={key} href={span.href} rel="noreferrer" target="_blank">
          {span.spans.map(spanOf)}
        </a>
      )
    case 'strong':
    case 'em':
    case 'del': {
      const Part = span.kind
      return <Part key={key}>{span.spans.map(spanOf)}</Part>
    }
  }
}
