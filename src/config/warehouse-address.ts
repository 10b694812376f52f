/**
 * The setting `warehouse`: the URL of ClickHouse as an operator writes it, `http://user:password@host:8123/database`.
 */

/** The parts of a ClickHouse URL: server, database and credentials. */
export interface WarehouseAddress {
  /** The scheme, host and port of the URL. */
  readonly origin: string
  /** The name of the database. If the URL contains none, it is `default`. */
  readonly database: string
  /** The value of the header `Authorization`. Null if requests use ClickHouse's default user. */
  readonly authorization: string | null
}

const DATABASE = /^[A-Za-z_]\w{0,63}$/
/** A percent sign without two hexadecimal digits after it. */
const BAD_ESCAPE = /%(?![0-9A-Fa-f]{2})/

/** Returns the parts of a URL of ClickHouse, or null if the URL is not valid. */
export function parseWarehouse(text: string): WarehouseAddress | null {
  if (!URL.canParse(text) || BAD_ESCAPE.test(text)) return null
  const { protocol, username, password, host, origin, pathname, search, hash } = new URL(text)
  const database = pathname.slice(1) === '' ? 'default' : pathname.slice(1)
  const isHttp = protocol === 'http:' || protocol === 'https:'
  if (!isHttp || host === '' || search !== '' || hash !== '' || !DATABASE.test(database)) {
    return null
  }
  const credentials = Buffer.concat([username, ':', password].map(unescaped))
  const authorization = username === '' ? null : `Basic ${credentials.toString('base64')}`
  return { origin, database, authorization }
}

/**
 * Returns the host and the database of a ClickHouse URL, such as `host:8123/database`. The result contains no secret.
 * Returns null if the URL is not valid.
 */
export function warehouseName(text: string): string | null {
  const parsed = parseWarehouse(text)
  return parsed === null ? null : `${new URL(parsed.origin).host}/${parsed.database}`
}

/** Decodes percent-encoding: `%2F` becomes the byte 0x2F. Returns bytes, because the result may be invalid UTF-8. */
function unescaped(text: string): Buffer {
  const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  )
  return Buffer.from(bytes, 'latin1')
}
