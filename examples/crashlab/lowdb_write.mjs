// lowdb: what write() has returned for is there.
//
//   twinfs crashlab --check 'node lowdb_write.mjs check' -- node lowdb_write.mjs run
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { JSONFilePreset } from 'lowdb/node'

if (process.argv[2] === 'run') {
  const db = await JSONFilePreset('db.json', { posts: [] })
  for (let n = 0; n < 4; n++) {
    await db.update(({ posts }) => posts.push({ n, text: 'x'.repeat(300) }))
    appendFileSync(process.env.CRASHLAB_ACK, `${n}\n`)
  }
} else {
  const promised = readFileSync(process.env.CRASHLAB_ACKED, 'utf8').split('\n').filter(Boolean).map(Number)
  if (promised.length > 0 || existsSync('db.json')) {
    const there = JSON.parse(readFileSync('db.json', 'utf8')).posts.map((post) => post.n)
    const gone = promised.filter((n) => !there.includes(n))
    if (gone.length > 0) {
      console.error(`posts ${gone} are gone`)
      process.exit(1)
    }
  }
}
