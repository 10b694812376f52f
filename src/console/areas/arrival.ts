/** The pages about arriving data. They load as one file. */
export { default as Live } from '../pages/live.tsx'
export { default as Setup } from '../pages/setup.tsx'
