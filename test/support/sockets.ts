import { readFile } from 'node:fs/promises'

/** How many sockets to a port processes still hold; what they have let go of has no inode any more. Linux only, else 0. */
export async function socketsTo(port: number): Promise<number> {
  const table = await readFile('/proc/self/net/tcp', 'utf8').catch(() => '')
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  return table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[2]?.endsWith(`:${hex}`) && fields[9] !== '0').length
}
