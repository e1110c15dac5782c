package worker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/task"
	"millrace/task/output"
)

// Bounds of an attempt's output before it is stored.
const (
	flushBytes = 512 << 10
	flushItems = 500
	flushAfter = 100 * time.Millisecond
	// lineCost is roughly what a line takes in bytes beside its text.
	lineCost = 100
	// blockBytes and blockTime bound the lines that are stored as one; see [output.Line].
	blockBytes = 64 << 10
	blockTime  = 10 * time.Millisecond
)

// Output collects what one attempt prints and produces and stores it in batches: while one batch is
// stored, the next is encoded and the one after that filled. A program that prints faster than that
// waits. Its methods are safe for concurrent use.
type Output struct {
	worker  *Worker
	ctx     context.Context // ends when the worker can wait no longer
	task    task.ID
	attempt int
	epoch   uint64
	place   *place // guarded by mu; nil if the attempt ends with its worker
	spill   *spill // takes batches that cannot be stored; nil if the attempt stops without a server

	// encoding is held from the end of a batch until the batch gets flushing, and flushing while it
	// is stored. So batches stay in order, and the next one can be encoded meanwhile.
	encoding, flushing turn

	mu      sync.Mutex
	lines   []output.Line     // guarded by mu
	block   strings.Builder   // guarded by mu; the text of the last of lines, if open is set
	open    bool              // guarded by mu
	items   []json.RawMessage // guarded by mu
	size    int               // guarded by mu
	printed int               // guarded by mu; lines so far
	kept    int               // guarded by mu; items so far
	final   json.RawMessage   // guarded by mu; the result
	timer   *time.Timer       // guarded by mu; nil if nothing waits
	err     error             // guarded by mu; items that could not be stored
	heard   time.Time         // guarded by mu; when the attempt last printed or sent anything
	beat    time.Time         // guarded by mu; when a message of the protocol last came
	hearsay bool              // guarded by mu; see Hearsay
	live    *standing         // guarded by mu; nil before the attempt reports progress
	allowed allowed           // how much of the lines is kept
	taken   int64             // guarded by mu; bytes of lines so far that were kept as they came
	tail    tail              // guarded by mu; the last of the lines beyond that
	cut     cut               // guarded by mu; what was dropped
	said    said              // guarded by mu; the program's last line, dropped or not
	records int64             // guarded by mu; bytes of items so far
	stored  []func(error)     // guarded by mu; called when the items are stored

	saving sync.Mutex // held while the progress is stored
}

// Line adds a line of a stream, such as [output.Stdout].
func (o *Output) Line(stream, text string) { o.add(output.Line{Stream: stream, Text: text}, nil) }

// Text adds a line, or with more a part of a line that goes on in the next text of the stream. It
// copies text, which must hold no line feed.
func (o *Output) Text(stream string, text []byte, more bool) {
	o.add(output.Line{Stream: stream, More: more}, text)
}

// Texts adds several lines of a stream at once. It copies text, in which a line feed separates each
// line from the next.
func (o *Output) Texts(stream string, text []byte, lines int) {
	if !o.addAll(stream, text, lines) {
		for line := range bytes.SplitSeq(text, []byte{'\n'}) {
			o.Text(stream, line, false)
		}
	}
}

// addAll is Texts, if no line must be looked at on its own; else it returns false.
func (o *Output) addAll(stream string, text []byte, lines int) bool {
	size := int64(len(text)) + 1
	o.mu.Lock()
	o.said.hear(stream, text, false, time.Now())
	if o.place != nil || o.allowed.most > 0 && (o.cut != (cut{}) || len(o.tail.left()) > 0 || o.taken+size > o.allowed.head()) {
		o.mu.Unlock()
		return false
	}
	o.taken += size
	o.put(output.Line{Stream: stream, Several: lines}, text)
	return true
}

// add adds a line whose text is l.Text or, if that is empty, text.
func (o *Output) add(l output.Line, text []byte) {
	size := len(l.Text) + len(text)
	o.mu.Lock()
	if text != nil {
		o.said.hear(l.Stream, text, l.More, time.Now())
	}
	if o.place.skips(&l) {
		o.taken += int64(size+len(l.Fields)) + 1
		o.heard = time.Now()
		o.mu.Unlock()
		return
	}
	if held, said := o.full(&l, text); held {
		if o.heard = time.Now(); !said {
			o.mu.Unlock()
			return
		}
		l, text = o.beyond(l.Upto), nil
	}
	o.put(l, text)
}

// put adds an entry for one line or several. The caller holds mu; put unlocks it.
func (o *Output) put(l output.Line, text []byte) {
	o.printed += l.Count()
	l.N, o.heard = o.printed, o.worker.cfg.Now()
	if l.At.IsZero() {
		l.At = o.heard
	}
	size := len(l.Text) + len(text)
	if text == nil || !o.join(&l, text) {
		o.endBlock()
		o.lines = append(o.lines, l)
		o.size += lineCost
		if text != nil {
			o.block.Write(text)
			o.open = true
		}
	}
	o.size += size + len(l.Fields) + 1
	o.wait()
	full := o.size >= flushBytes
	o.mu.Unlock()
	if full {
		o.flush()
	}
}

// join extends the last of lines by another line, if both came from the same stream in quick
// succession. The caller holds mu.
func (o *Output) join(l *output.Line, text []byte) bool {
	if !o.open || l.More || o.block.Len()+len(text) >= blockBytes {
		return false
	}
	last := &o.lines[len(o.lines)-1]
	if last.More || last.Stream != l.Stream || l.At.Sub(last.At) > blockTime {
		return false
	}
	o.block.WriteByte('\n')
	o.block.Write(text)
	last.N, last.Several, last.Upto = l.N, last.Count()+l.Count(), l.Upto
	return true
}

// endBlock gives the last of lines its text. The caller holds mu.
func (o *Output) endBlock() {
	if o.open {
		o.lines[len(o.lines)-1].Text = o.block.String()
		o.block.Reset()
		o.open = false
	}
}

// Insert adds records to the task's data; each is a JSON value.
func (o *Output) Insert(items ...json.RawMessage) error { return o.InsertThen(nil, items...) }

// InsertThen is [Output.Insert], and calls stored, if it is not nil, when the records are in the
// store or the store could not take them. If InsertThen returns an error, it does not call stored.
func (o *Output) InsertThen(stored func(error), items ...json.RawMessage) error {
	for _, item := range items {
		if !json.Valid(item) {
			return errors.New("insert: the record is not valid JSON")
		}
	}
	o.mu.Lock()
	items = o.place.rest(items)
	if err := o.recordsFit(items); err != nil {
		o.mu.Unlock()
		return err
	}
	o.items = append(o.items, items...)
	if stored != nil {
		o.stored = append(o.stored, stored)
	}
	o.lives()
	for _, item := range items {
		o.size += len(item)
	}
	o.wait()
	full := o.size >= flushBytes || len(o.items) >= flushItems
	o.mu.Unlock()
	if full {
		o.flush()
	}
	if stored != nil {
		return nil // stored gets the failure
	}
	return o.failure()
}

// SetResult sets the task's result, a small JSON value; the last one counts.
func (o *Output) SetResult(result json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.final = result
}

// Alive reports that the attempt makes progress although it prints nothing.
func (o *Output) Alive() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = time.Now()
}

func (o *Output) lastHeard() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heard
}

func (o *Output) result() json.RawMessage {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.final
}

// wait makes sure that what was added is stored soon. The caller holds mu.
func (o *Output) wait() {
	if o.timer == nil {
		o.timer = time.AfterFunc(flushAfter, o.flush)
	}
}

// turn is a lock whose holder may pass it to another goroutine; a goroutine that waits for it
// counts as idle. Most attempts print nothing, so it is made when it is first taken.
type turn struct {
	once  sync.Once
	taken chan struct{}
}

func (t *turn) Lock() {
	t.once.Do(func() { t.taken = make(chan struct{}, 1) })
	t.taken <- struct{}{}
}

func (t *turn) Unlock() { <-t.taken }

// batch is what is stored in one step.
type batch struct {
	lines  output.Lines
	items  []json.RawMessage
	first  int // the number of the first item
	stored []func(error)
}

// encodedRoom holds buffers for encoded lines, so that a task that prints much needs no new one
// each time.
var encodedRoom = sync.Pool{New: func() any { return new([]byte) }}

// encode encodes the lines of a batch. If that fails it leaves them to the store, which returns the
// error.
func (b *batch) encode() {
	if len(b.lines.Lines) == 0 {
		return
	}
	room := encodedRoom.Get().(*[]byte)
	if encoded, err := b.lines.AppendJSON((*room)[:0]); err == nil {
		b.lines.Encoded = encoded
	}
}

// done gives back the batch's buffer.
func (b *batch) done() {
	if b.lines.Encoded != nil {
		encodedRoom.Put(&b.lines.Encoded)
	}
}

// flush begins to store what was added, as soon as the batch before is encoded and on its way.
func (o *Output) flush() {
	o.encoding.Lock()
	b := o.take()
	go func() {
		b.encode()
		o.flushing.Lock()
		defer o.flushing.Unlock()
		o.encoding.Unlock()
		o.save(&b)
	}()
}

// flushAll stores what was added, after all earlier batches, and waits for it.
func (o *Output) flushAll() {
	o.encoding.Lock()
	defer o.encoding.Unlock()
	o.flushing.Lock()
	defer o.flushing.Unlock()
	b := o.take()
	b.encode()
	o.save(&b)
}

// take returns what must be stored, and begins a new batch.
func (o *Output) take() batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endBlock()
	b := batch{items: o.items, first: o.kept, stored: o.stored}
	b.lines = output.Lines{Task: o.task, Attempt: o.attempt, Epoch: o.epoch, Lines: o.lines}
	o.kept += len(o.items)
	o.lines, o.items, o.stored, o.size = nil, nil, nil, 0
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	return b
}

// save stores a batch. The caller holds flushing.
func (o *Output) save(b *batch) {
	defer b.done()
	if n := len(b.lines.Lines); n > 0 {
		if err := o.print(b.lines); err != nil {
			o.worker.log.Error("output was lost: it could not be stored", "error", err, "task", string(o.task), "lines", n)
		}
	}
	for some := range slices.Chunk(b.items, flushItems) {
		r := output.Records{Task: o.task, Attempt: o.attempt, Epoch: o.epoch, First: b.first, Items: some, Word: rand.Text()}
		b.first += len(some)
		if err := o.keep(r); err != nil {
			o.fail(fmt.Errorf("records could not be stored: %w", err))
		}
	}
	if len(b.stored) == 0 {
		return
	}
	err := o.failure()
	for _, tell := range b.stored {
		tell(err)
	}
}

// print stores lines, or spools them. The caller holds flushing.
func (o *Output) print(l output.Lines) error {
	if o.spill != nil {
		return o.spill.put(entry{Lines: &l})
	}
	return o.worker.outputs.Print(o.ctx, l)
}

// keep stores records, or spools them. The caller holds flushing.
func (o *Output) keep(r output.Records) error {
	if o.spill != nil {
		return o.spill.put(entry{Records: &r, Word: r.Word})
	}
	return o.worker.outputs.Keep(o.ctx, r)
}

func (o *Output) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

func (o *Output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// close stores what is left. An error means that records were lost; then the attempt cannot count
// as a success.
func (o *Output) close() error {
	o.mu.Lock()
	said := o.live != nil && (o.live.changed || o.live.timer != nil)
	silent := !said && o.printed == 0 && len(o.tail.left()) == 0 && o.cut == (cut{}) && o.kept == 0 &&
		len(o.items) == 0 && len(o.stored) == 0
	o.mu.Unlock()
	if silent {
		return nil
	}
	if said {
		o.saveLive()
	}
	o.sayTail()
	o.flushAll()
	return o.failure()
}
