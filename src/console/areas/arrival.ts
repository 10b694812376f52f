/** The pages about arriving data. The build puts them into one file. */
export { default as Live } from '../pages/live.tsx'
export { default as Setup } from '../pages/setup.tsx'
