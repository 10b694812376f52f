/** What uWebSockets.js v20 has at run time and its own declarations lack. */
import type { us_listen_socket } from 'uWebSockets.js'

declare module 'uWebSockets.js' {
  /** Listen option: without it a second listener on the same port starts silently. */
  const LIBUS_LISTEN_EXCLUSIVE_PORT: number
  /** Settings of the whole process; `silent` leaves the header `uWebSockets` out of every answer. */
  function _cfg(setting: 'silent'): void
  interface TemplatedApp {
    listen(
      host: string,
      port: number,
      options: number,
      callback: (listenSocket: us_listen_socket | false) => void,
    ): TemplatedApp
  }
}
