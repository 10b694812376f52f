/**
 * Decodes base64 as clients send it: with the standard or the URL-safe alphabet, with or without padding, and with line
 * breaks. Node's decoder skips characters that are not base64, so the alphabet is checked first.
 */
import { asBuffer } from './form.ts'

const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d
const PADDING = 0x3d
const IS_DIGIT = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[\w+/-]/.test(String.fromCharCode(byte)) ? 1 : 0,
)

/**
 * Returns the decoded bytes of a base64 text. Returns null if the text is empty or is not base64. The cost is linear.
 */
export function decodeBase64(text: Uint8Array): Buffer | null {
  let digitCount = 0
  let paddingCount = 0
  for (const byte of text) {
    if (byte === LINE_FEED || byte === CARRIAGE_RETURN) continue
    if (byte === PADDING) paddingCount++
    else if (IS_DIGIT[byte] === 1 && paddingCount === 0) digitCount++
    else return null
  }
  if (digitCount === 0 || digitCount % 4 === 1 || paddingCount > 2) return null
  return Buffer.from(asBuffer(text).toString('latin1'), 'base64')
}
