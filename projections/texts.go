package projections

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/projections/past"
	"millrace/projections/view"
	"millrace/task"
)

// texts tells where tasks with a text may be, so that a search for a rare text reads few rows.
// Tasks lie in blocks, in the order of their ids. A block has a bit table of the trigrams (three
// successive bytes, in lower case) in the texts of its tasks; the hash of a trigram gives its bit.
// A block forgets no trigram, so it may contain outdated ones, but never misses a present one. Ids
// would fill the table, so they are stored unchanged.
//
// [Store.Index] adds the rows of an earlier process. Until then, and for texts of fewer than three
// bytes, rows are read one by one.
type texts struct {
	mu     sync.Mutex
	blocks []*block // guarded by mu, as are the blocks; by their first ids
	full   int      // the tasks that fill a block; blockTasks except in tests
	seen   uint64   // guarded by mu; the last sequence of the batches that were noted
}

// blockTasks is how many tasks fill a block. With more, a search reads more rows for each candidate
// block; with fewer, the tables take more memory (8 kB each).
const blockTasks = 1024

// trigramBits is the size of a block's table. The commands and messages of blockTasks dissimilar
// tasks fill a fifth of it.
const trigramBits = 1 << 16

// block is the knowledge of the tasks from an id on, up to the beginning of the next block.
type block struct {
	first, last string
	n           int
	known       bool // false if it may lack rows; ids are then those that came since
	ids         []byte
	trigrams    trigramTable
	latest      [4]string // the last addition of each kind; many tasks have the same
}

type trigramTable [trigramBits / 64]uint64

func (x *trigramTable) add(text string) {
	trigrams(text, func(bit uint32) bool {
		x[bit/64] |= 1 << (bit % 64)
		return true
	})
}

// may tells whether the table can have a text.
func (x *trigramTable) may(text string) bool {
	has := true
	trigrams(text, func(bit uint32) bool {
		has = x[bit/64]&(1<<(bit%64)) != 0
		return has
	})
	return has
}

// noted is the fold's report on a task: its id if it is new, and possibly new texts.
type noted struct {
	id  string
	new bool
	has [4]string
}

// textMessage is the place of the message among these.
const textMessage = 2

// textsIn returns the recorded texts that all tasks matching a filter have.
func textsIn(f *view.Filter) []string {
	return slices.DeleteFunc([]string{f.Text, f.Job}, func(text string) bool { return len(text) < 3 })
}

// begin discards everything. Known says that there are no rows.
func (x *texts) begin(known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.blocks, x.seen = []*block{{known: known}}, 0
}

// note must be called before the rows of a batch become visible, so that concurrent searches find
// them. A batch that could then not be written, as on a full disk, comes again; its new tasks count
// once.
func (x *texts) note(first, last uint64, all []noted) {
	x.mu.Lock()
	defer x.mu.Unlock()
	again := first <= x.seen
	x.seen = max(x.seen, last)
	for i := range all {
		n := &all[i]
		b := x.blockFor(n)
		n.new = n.new && !(again && bytes.Contains(b.ids, []byte(n.id+"\n")))
		b.note(n)
	}
}

// forget drops the blocks of which no task is left.
func (x *texts) forget(gone []task.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	left := map[*block]int{}
	for _, id := range gone {
		left[x.blocks[x.find(string(id))]]++
	}
	last := x.blocks[len(x.blocks)-1]
	x.blocks = slices.DeleteFunc(x.blocks, func(b *block) bool {
		if b.known {
			b.n -= left[b]
		}
		return b.known && b.n <= 0 && left[b] > 0 && b != last
	})
	x.blocks[0].first = ""
}

// blockFor returns the block of a task. A new task behind all others begins a block if the last one
// is full. It needs mu held.
func (x *texts) blockFor(n *noted) *block {
	last := x.blocks[len(x.blocks)-1]
	if n.id >= last.first {
		if n.new && last.known && last.n >= x.full && n.id > last.last {
			last = &block{first: n.id, known: true}
			x.blocks = append(x.blocks, last)
		}
		return last
	}
	return x.blocks[x.find(n.id)]
}

// find is the index of the block for an id. It needs mu held.
func (x *texts) find(id string) int {
	at, found := slices.BinarySearchFunc(x.blocks, id, func(b *block, id string) int { return strings.Compare(b.first, id) })
	if !found {
		at--
	}
	return at
}

func (b *block) note(n *noted) {
	if n.new {
		b.n++
		b.last = max(b.last, n.id)
		b.ids = append(append(b.ids, n.id...), '\n')
	}
	for i, text := range n.has {
		if text == "" || text == b.latest[i] {
			continue
		}
		b.latest[i] = text
		b.trigrams.add(text)
	}
}

// trigrams calls each with the bit of every three successive bytes of a text in lower case, until
// it returns false.
func trigrams(text string, each func(bit uint32) bool) {
	text = view.Lower(text)
	for i := 0; i+3 <= len(text); i++ {
		h := uint32(text[i]) | uint32(text[i+1])<<8 | uint32(text[i+2])<<16
		if !each(bits.RotateLeft32(h*2654435761, 16) % trigramBits) { // Knuth's multiplicative hash: the upper half
			return
		}
	}
}

// may tells whether a task of the block can have the text.
func (b *block) may(text string, id []byte) bool {
	return !b.known || b.trigrams.may(text) || bytes.Contains(b.ids, id)
}

// span is a range of ids, from first up to and without end; "" for no end.
type span struct{ first, end string }

// spans returns where tasks with all of the texts may be, in the order of ids. Texts must have at
// least three bytes.
func (x *texts) spans(texts ...string) (spans []span) {
	if len(texts) == 0 {
		return []span{{}}
	}
	ids := make([][]byte, len(texts))
	for i, text := range texts {
		ids[i] = []byte(strings.ToUpper(text))
	}
	means := func(b *block) bool {
		may := true
		for j := 0; j < len(texts) && may; j++ {
			may = b.may(texts[j], ids[j])
		}
		return may
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, b := range x.blocks {
		if !means(b) {
			continue
		}
		end := ""
		if i+1 < len(x.blocks) {
			end = x.blocks[i+1].first
		}
		if n := len(spans); n > 0 && spans[n-1].end == b.first {
			spans[n-1].end = end
		} else {
			spans = append(spans, span{b.first, end})
		}
	}
	return spans
}

// Index reads the index of the past, so that the first question need not, and then records the texts
// of the rows that existed when the store was opened, so that a search reads few of them. It takes some
// microseconds and about 35 bytes of memory per row. It may run beside everything else, uses at most
// half of a processor for the rows, and returns when it has ended or ctx has. The error is that of
// reading, or wraps [ErrClosed].
func (s *Store) Index(ctx context.Context) error {
	if err := s.now(ctx, "read the index of the past", func(*past.View) error { return nil }); err != nil {
		return err
	}
	for {
		began := time.Now()
		more, err := s.indexBlock(ctx)
		if err != nil || !more {
			return err
		}
		if !sleep(ctx, time.Since(began)) {
			return nil
		}
	}
}

// rowsOfBlock reads the rows of a block. Its upper bound is always there, so that SQLite ends at it
// by the index; it would read all later rows otherwise.
const rowsOfBlock = "SELECT " + rowColumns + " FROM tasks WHERE id >= ? AND id < ? ORDER BY id"

// afterAllIDs is behind every id of a task.
const afterAllIDs = "\U0010FFFF"

// indexBlock records the first rows of the first unknown block. It splits them off before it reads
// them, so that concurrent changes of the fold are recorded there.
func (s *Store) indexBlock(ctx context.Context) (more bool, err error) {
	b, end := s.texts.unknown()
	if b == nil {
		return false, nil
	}
	err = s.view(ctx, "index tasks", func(tx *sql.Tx, _ uint64) error {
		var next string
		err := tx.QueryRowContext(ctx, "SELECT id FROM tasks WHERE id >= ? AND id < ? ORDER BY id LIMIT 1 OFFSET ?",
			b.first, cmp.Or(end, afterAllIDs), s.texts.full).Scan(&next)
		if err == nil {
			s.texts.split(b, next)
		} else if err != sql.ErrNoRows { //nolint:errorlint // Scan returns it as it is
			return err
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	// In a transaction of its own: it sees rows written before the split, and later changes are
	// recorded.
	err = s.view(ctx, "index tasks", func(tx *sql.Tx, _ uint64) error {
		_, end := s.texts.unknown()
		rows, err := tx.QueryContext(ctx, rowsOfBlock, b.first, cmp.Or(end, afterAllIDs))
		if err != nil {
			return err
		}
		defer rows.Close()
		var all []noted
		for rows.Next() {
			t, err := scanTask(rows, s.form)
			if err != nil {
				return err
			}
			all = append(all, noted{id: string(t.ID), new: true, has: view.Texts(&t)})
		}
		if err := rows.Err(); err != nil {
			return err
		}
		s.texts.learned(b, all)
		return nil
	})
	return true, err
}

// unknown is the first unknown block, nil if there is none, and the beginning of the next one.
func (x *texts) unknown() (b *block, end string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, b := range x.blocks {
		if !b.known {
			if i+1 < len(x.blocks) {
				end = x.blocks[i+1].first
			}
			return b, end
		}
	}
	return nil, ""
}

// split ends a block where another one begins, with equal knowledge. Changes recorded for both
// count for both.
func (x *texts) split(b *block, next string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.find(b.first)
	if x.blocks[at] != b { // the store was rebuilt
		return
	}
	rest := &block{first: next, trigrams: b.trigrams}
	fresh := b.ids
	b.ids = nil
	for id := range bytes.Lines(fresh) {
		to := b
		if string(id[:len(id)-1]) >= next {
			to = rest
		}
		to.ids = append(to.ids, id...)
	}
	x.blocks = slices.Insert(x.blocks, at+1, rest)
}

// learned adds the texts of a block's rows, after which the block is known.
func (x *texts) learned(b *block, all []noted) {
	x.mu.Lock()
	defer x.mu.Unlock()
	fresh := b.ids
	b.n, b.last, b.ids = 0, "", nil
	for i := range all {
		b.note(&all[i])
	}
	rows := b.ids
	for id := range bytes.Lines(fresh) {
		if !bytes.Contains(rows, id) {
			b.note(&noted{id: string(id[:len(id)-1]), new: true})
		}
	}
	b.known = true
}
