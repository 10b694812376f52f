/** Makes things when they are needed for the first time. */

/**
 * Returns a function that returns what `make` has made at the first call. The first formatter of a page takes a browser
 * up to a tenth of a second, so none is made before the page has sent its first request.
 */
export function lazy<Made>(make: () => Made): () => Made {
  let made: Made | undefined
  return () => (made ??= make())
}
