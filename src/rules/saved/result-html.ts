/** Writes the result of a query as HTML for a shared page. */
import { escaped } from '../../base/html/html.ts'
import { type Answered, type SharedTable, sharedTable } from './shared-table.ts'

/**
 * Returns a table with the result of a query, or a sentence if the result is empty. The cost is linear in the number of
 * cells that are shown.
 */
export function resultHtml(answered: Answered): string {
  const table = sharedTable(answered)
  return table === null ? sentenceHtml('There is no data.') : tableOf(table)
}

/** Returns a sentence that is shown in place of a result. */
export function sentenceHtml(sentence: string): string {
  return `<p><small>${escaped(sentence)}</small></p>`
}

function tableOf({ head, rows, moreRows, moreColumns }: SharedTable): string {
  const more = [
    moreRows === 0 ? [] : [`${moreRows} more rows`],
    moreColumns === 0 ? [] : [`${moreColumns} more columns`],
  ].flat()
  const caption = more.length === 0 ? '' : `<caption>and ${more.join(' and ')}</caption>`
  const body = rows.map((row) => `<tr>${row.map((cell) => element('td', cell)).join('')}</tr>`)
  return `<table>${caption}<tr>${head.map((cell) => element('th', cell)).join('')}</tr>${body.join('')}</table>`
}

function element(name: 'td' | 'th', text: string): string {
  return `<${name}>${escaped(text)}</${name}>`
}
