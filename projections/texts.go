package projections

import (
	"bytes"
	"context"
	"database/sql"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/task"
	"millrace/view"
)

// texts tells where tasks with a text may be, so that a search for something rare passes over few rows.
// Tasks lie in blocks, in the order of their ids. A block knows which trigrams (three bytes in a row, in
// lower case) the texts of its tasks have, as bits of a table: each has one, by its hash. It forgets
// none, so it may promise what is there no more; it never misses what is there. Ids would fill the table, so
// they are kept as they are.
//
// What the rows of an earlier process hold is learned by [Store.Index]; until then, and for texts of fewer than
// three bytes, rows are passed over one by one.
type texts struct {
	mu     sync.Mutex
	blocks []*block // guarded by mu, as are the blocks; by their first ids
	full   int      // how many tasks make a block full; blockTasks but in tests
}

// blockTasks is how many tasks make a block full: with more a search passes over more rows for
// each block that may have the text, with fewer the tables take more memory (8 kB each).
const blockTasks = 1024

// trigramBits is the size of a block's table. Commands and messages of blockTasks tasks that have little in
// common fill a fifth of it.
const trigramBits = 1 << 16

// block is what is known of the tasks from an id on, up to where the next block begins.
type block struct {
	first, last string
	n           int
	known       bool // else there may be rows that it does not know, and ids are those that came since
	ids         []byte
	trigrams    [trigramBits / 64]uint64
	latest      [5]string // what was added last of each kind; many tasks have the same
}

// noted is what the fold tells of a task: its id if it is new, and texts that it may not have had before.
type noted struct {
	id  string
	new bool
	has [5]string
}

// textsOf are all that a block notes of a task: what people search, and the marks that lists are asked for.
func textsOf(t *task.Task) (all [5]string) {
	is := view.Texts(t)
	all[copy(all[:], is[:])] = sharedMarks(t)
	return all
}

// textsIn are what all tasks have that a filter chooses, of what blocks note.
func textsIn(f *view.Filter) []string {
	all := []string{f.Text, f.Job}
	for name, value := range f.Labels {
		all = append(all, mark(markLabel, labelMark(name, value)))
	}
	if f.Schedule != "" {
		all = append(all, mark(markSchedule, f.Schedule))
	}
	return slices.DeleteFunc(all, func(text string) bool { return len(text) < 3 })
}

// begin forgets everything. Known is whether there are no rows.
func (x *texts) begin(known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.blocks = []*block{{known: known}}
}

// note must be called before the rows can be seen: who searches meanwhile finds them.
func (x *texts) note(all []noted) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range all {
		x.blockFor(&all[i]).note(&all[i])
	}
}

// blockFor is where a task belongs. A new one behind all others begins a block if the last one is full.
// Must be called with mu held.
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

// find is the place of the block that an id belongs to. Must be called with mu held.
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
		if text != "" && text != b.latest[i] {
			b.latest[i] = text
			trigrams(text, func(bit uint32) bool {
				b.trigrams[bit/64] |= 1 << (bit % 64)
				return true
			})
		}
	}
}

// trigrams calls each with the bit of every three bytes in a row of a text in lower case, as long as that returns true.
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
	if !b.known {
		return true
	}
	has := true
	trigrams(text, func(bit uint32) bool {
		has = b.trigrams[bit/64]&(1<<(bit%64)) != 0
		return has
	})
	return has || bytes.Contains(b.ids, id)
}

// span is a range of ids: from the first on up to, and without, the end; "" for no end.
type span struct{ first, end string }

// spans are where tasks with all of the texts may be, in the order of ids. Texts have three bytes at least.
func (x *texts) spans(texts ...string) (spans []span) {
	if len(texts) == 0 {
		return []span{{}}
	}
	ids := make([][]byte, len(texts))
	for i, text := range texts {
		ids[i] = []byte(strings.ToUpper(text))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, b := range x.blocks {
		may := true
		for j := 0; j < len(texts) && may; j++ {
			may = b.may(texts[j], ids[j])
		}
		if !may {
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

// Index learns which texts the rows hold that were there when the store was opened, so that searching for one passes
// over few of them. It takes some microseconds for each row, and memory of about 35 bytes. It may run beside
// everything else, takes half of a processor at most, and returns when it has ended or ctx has; the error is that of
// reading the rows, or wraps [ErrClosed].
func (s *Store) Index(ctx context.Context) error {
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

// indexBlock learns the first rows of the first block that is not known. It splits them off before it reads them, so that
// whatever the fold changes meanwhile is noted there.
func (s *Store) indexBlock(ctx context.Context) (more bool, err error) {
	b, end := s.texts.unknown()
	if b == nil {
		return false, nil
	}
	err = s.view(ctx, "index tasks", func(tx *sql.Tx, _ uint64) error {
		var next string
		err := tx.QueryRowContext(ctx, "SELECT id FROM tasks WHERE id >= ? AND (? = '' OR id < ?) ORDER BY id LIMIT 1 OFFSET ?",
			b.first, end, end, s.texts.full).Scan(&next)
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
	// In a transaction of its own: what was written before the split is seen, what comes later is noted.
	err = s.view(ctx, "index tasks", func(tx *sql.Tx, _ uint64) error {
		_, end := s.texts.unknown()
		rows, err := tx.QueryContext(ctx, "SELECT "+rowColumns+" FROM tasks WHERE id >= ? AND (? = '' OR id < ?) ORDER BY id", b.first, end, end)
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
			all = append(all, noted{id: string(t.ID), new: true, has: textsOf(&t)})
		}
		if err := rows.Err(); err != nil {
			return err
		}
		s.texts.learned(b, all)
		return nil
	})
	return true, err
}

// unknown is the first block that is not known, nil if all are, and where the next one begins.
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

// split has a block end where another begins, of which as much is known. What was noted for both counts for both.
func (x *texts) split(b *block, next string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.find(b.first)
	if x.blocks[at] != b { // the store was made anew
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

// learned adds what the rows of a block say, after which it is known.
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
