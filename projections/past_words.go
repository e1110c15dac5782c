package projections

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
)

// Words are the labels and texts by which filters choose tasks. The index has each once, with a number,
// and of a task the numbers: with its origin those of its labels, its step and its command, and with a
// move that of its message if that has changed. So it tells without rows and messages which tasks had a
// label or a text. Texts are in lower case, as [view.Lower] makes it.
//
// Values that each task has for itself would fill the table. So the table is bounded, and once it is half
// full it takes only words that come again. Any other word is loose: a label has a mark in place of a
// number, and a text nothing. What is loose is looked up in the rows, or in the messages of the log.

// Kinds of words.
const (
	wordLabel   = iota // its name, after the name's length, and its value
	wordText           // a step or a command
	wordMessage        // what a task says, such as why it failed
	wordKinds
)

// How an entry names a word.
const (
	looseLabel = iota // a label without a number; its mark follows
	looseText         // a text without one
	wordNone          // no text
	firstWord         // the word with the number 0; others follow
)

// labelBytes is the length of a loose label's mark. Few different labels share one.
const labelBytes = 3

func labelHash(k, v string) [labelBytes]byte {
	sum := crc32.Update(crc32.Update(0, pastTable, []byte(k+"=")), pastTable, []byte(v))
	return [labelBytes]byte{byte(sum), byte(sum >> 8), byte(sum >> 16)}
}

// labelWords is how many words of bits a block has for the marks of loose labels.
const labelWords = 64

// labelBit is the bit of a loose label's mark in a block.
func labelBit(mark []byte) (word int, bit uint64) {
	return int(mark[1]) % labelWords, 1 << (mark[0] & 63)
}

// appendWord writes a word: its kind and its text. Of a label, name is its name.
func appendWord(b []byte, kind byte, name, text string) []byte {
	if b = append(b, kind); kind == wordLabel {
		b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
	}
	return append(b, text...)
}

// lexicon numbers words.
type lexicon struct {
	table[string]
	most, room int // how many words of a kind there may be, and how many bytes they may have
	used       [wordKinds]struct{ n, bytes int }
	once       [1 << 12]uint32      // checksums of words that came once
	commands   map[*job.Spec]uint64 // how entries name the commands of specs
}

// mostCommands is how many specs a lexicon remembers.
const mostCommands = 1024

func (l *lexicon) add(word string) uint64 {
	u := &l.used[word[0]]
	u.n, u.bytes = u.n+1, u.bytes+len(word)
	return l.table.add(word)
}

func (l *lexicon) cut(n int) {
	for _, word := range l.values[n:] {
		u := &l.used[word[0]]
		u.n, u.bytes = u.n-1, u.bytes-len(word)
	}
	if n < len(l.values) {
		clear(l.commands)
	}
	l.table.cut(n)
}

// admits tells whether a new word gets a number.
func (l *lexicon) admits(word []byte) bool {
	u := &l.used[word[0]]
	switch {
	case u.n >= l.most, u.bytes+len(word) > l.room, len(word) > l.room/64:
		return false
	case u.n < l.most/2 && u.bytes < l.room/2:
		return true
	}
	sum := crc32.Checksum(word, pastTable)
	slot := &l.once[sum%uint32(len(l.once))]
	again := *slot == sum
	*slot = sum
	return again
}

// word is how an entry names a word. It adds a new word if the table admits it.
func (w *pastWriter) word(kind byte, name, text string) uint64 {
	w.text = appendWord(w.text[:0], kind, name, text)
	n, known := w.words.numbers[string(w.text)]
	switch {
	case known:
	case !w.words.admits(w.text):
		if kind == wordLabel {
			return looseLabel
		}
		return looseText
	default:
		w.head(pastNote, uint64(1+len(w.text)))
		w.batch = append(append(w.batch, noteWord), w.text...)
		n = w.words.add(string(w.text))
	}
	return firstWord + n
}

// wordsOf names the words that a task has from its birth. They are valid until the next call.
func (w *pastWriter) wordsOf(t *task.Task) []byte {
	list := w.list[:0]
	for k, v := range t.Labels {
		is := w.word(wordLabel, k, v)
		if list = binary.AppendUvarint(list, is); is == looseLabel {
			mark := labelHash(k, v)
			list = append(list, mark[:]...)
		}
	}
	if t.Step != "" {
		list = binary.AppendUvarint(list, w.word(wordText, "", view.Lower(t.Step)))
	}
	if view.CommandText(t) != "" {
		list = binary.AppendUvarint(list, w.command(t.Spec))
	}
	w.list = list
	return list
}

// command names the command of a spec.
func (w *pastWriter) command(spec *job.Spec) uint64 {
	if is, known := w.words.commands[spec]; known {
		return is
	}
	text := spec.Text()
	if text == "" {
		return wordNone
	}
	is := w.word(wordText, "", view.Lower(text))
	if is != looseText {
		if len(w.words.commands) == mostCommands {
			clear(w.words.commands)
		}
		w.words.commands[spec] = is
	}
	return is
}

// spoken is what the index tells of the words of all tasks so far. It is guarded by the map's mu.
type spoken struct {
	by                      []posting // the tasks born with a word, by its number
	looseLabels, looseTexts posting   // those born with loose ones
	messages                talk
}

// posting is a list of tasks in the order of their numbers, as the distances between them.
type posting struct {
	list []byte
	last uint32
}

func (p *posting) add(number uint32) {
	p.list, p.last = binary.AppendUvarint(p.list, uint64(number-p.last)), number
}

// talk has the changes of tasks' messages, in the order of the log: the distances of the sequence and of
// the task from those before, and how an entry names the message.
type talk struct {
	list   []byte
	seq    uint64
	number uint32
	loose  bool // some messages are loose
}

func (t *talk) add(seq uint64, number uint32, says uint64) {
	t.list = binary.AppendUvarint(t.list, seq-t.seq)
	t.list = binary.AppendVarint(t.list, int64(number)-int64(t.number))
	t.list = binary.AppendUvarint(t.list, says)
	t.seq, t.number, t.loose = seq, number, t.loose || says == looseText
}

// at returns who said one of some words at a sequence, and whose message was loose: those who say it
// still, and those who have said something else since.
func (t *talk) at(seq uint64, words []bool, tasks uint32) (said, still, since taskSet) {
	said, still, since = newTaskSet(tasks), newTaskSet(tasks), newTaskSet(tasks)
	(&talk{}).to(t, func(at uint64, number uint32, says uint64) bool {
		switch {
		case at <= seq:
			said.set(number, says >= firstWord && says-firstWord < uint64(len(words)) && words[says-firstWord])
			still.set(number, says == looseText)
		case number <= tasks && still.has(number):
			still.set(number, false)
			since.set(number, true)
		}
		return at <= seq || t.loose
	})
	return said, still, since
}

// to reads what has come since, until each returns false.
func (t *talk) to(later *talk, each func(seq uint64, number uint32, says uint64) bool) {
	seq, number := t.seq, int64(t.number)
	for r := (pastReader{b: later.list, at: len(t.list)}); r.at < len(r.b); {
		seq += r.uint()
		number += r.int()
		if !each(seq, uint32(number), r.uint()) { // it was one
			return
		}
	}
}

// tells records the words of a task's birth, and the marks of its loose labels. It is false if they are
// not what was written.
func (k *spoken) tells(number uint32, words []byte, known int, mark func(mark []byte)) bool {
	k.by = append(k.by, make([]posting, known-len(k.by))...)
	for r := (pastReader{b: words}); r.at < len(r.b); {
		switch is := r.uint(); {
		case is == looseLabel:
			if m := r.text(labelBytes); !r.bad {
				mark(m)
			}
			k.looseLabels.add(number)
		case is == looseText:
			k.looseTexts.add(number)
		case is < firstWord, is-firstWord >= uint64(known):
			return false
		default:
			k.by[is-firstWord].add(number)
		}
		if r.bad {
			return false
		}
	}
	return true
}

// of lists the tasks born with a word.
func (k *spoken) of(word int) []byte {
	if word < 0 || word >= len(k.by) {
		return nil
	}
	return k.by[word].list
}

// taskSet has a bit for each task, by its number.
type taskSet []uint64

func newTaskSet(tasks uint32) taskSet { return make(taskSet, tasks/64+1) }

func (b taskSet) has(n uint32) bool { return int(n/64) < len(b) && b[n/64]&(1<<(n%64)) != 0 }

// set sets the bit of a task, if there is one.
func (b taskSet) set(n uint32, is bool) {
	switch {
	case int(n/64) >= len(b):
	case is:
		b[n/64] |= 1 << (n % 64)
	default:
		b[n/64] &^= 1 << (n % 64)
	}
}

// join adds the tasks of a posting.
func (b taskSet) join(list []byte) {
	number := uint64(0)
	for at := 0; at < len(list); {
		more, used := uint64(list[at]), 1
		if more >= 0x80 { // most are of one byte
			more, used = binary.Uvarint(list[at:])
		}
		at += used
		number += more
		if number/64 >= uint64(len(b)) {
			return
		}
		b[number/64] |= 1 << (number % 64)
	}
}

func (b taskSet) or(other taskSet) {
	for i := range other {
		b[i] |= other[i]
	}
}

// any tells whether there is a task among those after one, up to another.
func (b taskSet) any(after, until uint32) bool {
	for n := after + 1; n <= until; n++ {
		switch {
		case b.has(n):
			return true
		case n%64 == 0 && b[n/64] == 0:
			n += 63
		}
	}
	return false
}

// labelled tells which tasks of a scene have a label.
type labelled struct {
	surely taskSet
	mark   [labelBytes]byte
}

// wordings is what the words of tasks tell of the labels and the text of a filter.
type wordings struct {
	labels []labelled
	loose  taskSet // tasks with loose labels
	odd    taskSet // tasks whose words the index does not tell; not set if the filter asks for none

	says *says // nil without a text
}

// says tells which tasks of a scene said a text. All others may have said it only in their ids.
type says struct {
	text   string // in lower case
	surely taskSet
	maybe  taskSet // their messages were loose, and are others by now
	rows   [2]inRows
	named  []span // where ids with the text may be
	talk   talk   // the changes of messages so far
}

// inRows are tasks with loose texts, which their rows still have.
type inRows struct {
	of    taskSet
	spans []span                    // where rows with the text may be
	part  func(words string) string // the words that are meant
}

// wordings looks up the labels and the text of a filter.
func (p *past) wordings(ctx context.Context, s *scene, f *view.Filter) (is *wordings, err error) {
	is = &wordings{}
	if f.Text != "" { // before the index is read: later changes are recorded there
		is.says = &says{text: view.Lower(f.Text), named: p.store.texts.named(f.Text)}
		is.says.rows[0] = inRows{spans: p.store.texts.born(f.Text), part: bornWords}
		is.says.rows[1] = inRows{spans: p.store.texts.told(f.Text), part: messageWords}
	}
	if f.Placed() {
		return is, nil // no matter which words they have
	}
	if is.odd, err = p.odd(ctx, s); err != nil {
		return nil, err
	}
	is.label(p, s, f.Labels)
	if is.says != nil {
		is.says.look(p, s)
	}
	return is, nil
}

// inRows tells whether rows of a scene may have the text of the filter where the index does not tell.
func (w *wordings) inRows(s *scene) bool {
	return w.says != nil && slices.ContainsFunc(w.says.rows[:], func(r inRows) bool { return len(r.spans) > 0 && r.of.any(0, s.tasks) })
}

func (w *wordings) label(p *past, s *scene, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	m, lists, loose := &p.store.then, [][]byte{}, []byte{}
	for k, v := range labels {
		word := slices.Index(s.tables.words, string(appendWord(nil, wordLabel, k, v)))
		w.labels = append(w.labels, labelled{newTaskSet(s.tasks), labelHash(k, v)})
		m.mu.Lock()
		lists, loose = append(lists, s.spoken.of(word)), s.spoken.looseLabels.list
		m.mu.Unlock()
	}
	for i := range lists {
		w.labels[i].surely.join(lists[i])
	}
	w.loose = newTaskSet(s.tasks)
	w.loose.join(loose)
}

// look looks up the text.
func (is *says) look(p *past, s *scene) {
	is.surely, is.maybe = newTaskSet(s.tasks), newTaskSet(s.tasks)
	is.rows[0].of, is.rows[1].of = newTaskSet(s.tasks), newTaskSet(s.tasks)
	found, spoken := make([]bool, len(s.tables.words)), false
	for i, word := range s.tables.words {
		if word[0] != wordLabel && strings.Contains(word[1:], is.text) {
			found[i], spoken = true, spoken || word[0] == wordMessage
		}
	}
	m, lists := &p.store.then, [][]byte{}
	m.mu.Lock()
	for i, has := range found {
		if has {
			lists = append(lists, s.spoken.of(i))
		}
	}
	loose := s.spoken.looseTexts.list
	is.talk = s.spoken.messages
	m.mu.Unlock()
	for _, list := range lists {
		is.surely.join(list)
	}
	is.rows[0].of.join(loose)
	if spoken || is.talk.loose {
		var said taskSet
		said, is.rows[1].of, is.maybe = is.talk.at(s.reached, found, s.tasks)
		is.surely.or(said)
	}
	of, any := make([]bool, len(s.tables.origins)+1), false
	for i := range s.tables.origins {
		of[i+1] = strings.Contains(view.Lower(s.tables.origins[i].job), is.text)
		any = any || of[i+1]
	}
	for number := 0; any && number < len(s.from); number++ {
		if of[s.from[number]] {
			is.surely.set(uint32(number), true) // there are no more tasks
		}
	}
}

// look is what the words tell of the tasks of a block.
type look struct {
	*wordings
	loose []bool  // of each label, whether a task of the block may have it as a loose one
	named bool    // an id in the block may have the text
	rows  [2]bool // its rows may
}

func (w *wordings) look(b *pastBlock) look {
	l := look{wordings: w}
	for i := range w.labels {
		word, bit := labelBit(w.labels[i].mark[:])
		l.loose = append(l.loose, b.labels[word]&bit != 0)
	}
	if w.says != nil {
		l.named = touches(w.says.named, b.low, b.high)
		for i := range l.rows {
			l.rows[i] = touches(w.says.rows[i].spans, b.low, b.high)
		}
	}
	return l
}

// may tells whether a task may match, and whether it surely does.
func (l *look) may(number uint32) (may, surely bool) {
	surely = true
	for i := range l.labels {
		switch {
		case l.odd.has(number):
			surely = false
		case l.labels[i].surely.has(number):
		case l.loose[i] && l.wordings.loose.has(number):
			surely = false
		default:
			return false, false
		}
	}
	if s := l.says; s != nil {
		switch {
		case l.odd.has(number):
			surely = false
		case s.surely.has(number):
		case l.named, s.maybe.has(number), l.rows[0] && s.rows[0].of.has(number), l.rows[1] && s.rows[1].of.has(number):
			surely = false
		default:
			return false, false
		}
	}
	return true, surely
}

// has tells whether a task that is not odd has the labels, by the words of its birth.
func (w *wordings) has(number uint32, words []byte) bool {
	var marks [][]byte
	for r := (pastReader{b: words}); r.at < len(r.b); {
		if r.uint() == looseLabel {
			marks = append(marks, r.text(labelBytes))
		}
	}
	for i := range w.labels {
		l := &w.labels[i]
		if !l.surely.has(number) && !slices.ContainsFunc(marks, func(m []byte) bool { return bytes.Equal(m, l.mark[:]) }) {
			return false
		}
	}
	return true
}

// told tells whether the index is sure that a task has the labels.
func (w *wordings) told(number uint32) bool {
	return !w.odd.has(number) && !slices.ContainsFunc(w.labels, func(l labelled) bool { return !l.surely.has(number) })
}

// saying returns the tasks among some, of one block, that may have said the text.
func (w *walk) saying(ctx context.Context, of []numbered) (found []numbered, err error) {
	s, odd := w.words.says, w.words.odd
	var loose []numbered
	for _, t := range of {
		if !s.surely.has(t.number) && !odd.has(t.number) && (s.rows[0].may(&t) || s.rows[1].may(&t)) {
			loose = append(loose, t)
		}
	}
	var inRow map[uint32]bool
	var since taskSet
	if len(loose) > 0 {
		if inRow, err = w.past.saying(ctx, loose, s); err != nil {
			return nil, err
		}
		// Rows may have changed since the index was read.
		if odd, err = w.past.odd(ctx, w.scene); err != nil {
			return nil, err
		}
		since = w.past.talkedSince(w.scene, s)
	}
	for _, t := range of {
		row, surely := s.inRow(inRow, &t)
		switch {
		case odd.has(t.number), since != nil && since.has(t.number):
			t.sure = false
		case s.surely.has(t.number), row && surely, s.isNamed(t.id):
		case row, s.maybe.has(t.number):
			t.sure = false
		default:
			continue
		}
		found = append(found, t)
	}
	return found, nil
}

// isNamed tells whether an id has the text.
func (s *says) isNamed(id task.ID) bool {
	return touches(s.named, string(id), string(id)) && strings.Contains(view.Lower(string(id)), s.text)
}

// may tells whether the row of a task may have the text.
func (r *inRows) may(t *numbered) bool {
	return r.of.has(t.number) && touches(r.spans, string(t.id), string(t.id))
}

// inRow tells whether the row of a task has the text, and whether that is sure: rows have blanks for
// some characters, and a line feed between a step and a command.
func (s *says) inRow(rows map[uint32]bool, t *numbered) (has, surely bool) {
	return rows[t.number], !strings.ContainsAny(s.text, " \n"+markBegin+markEnd+"\x00")
}

// saying returns the tasks among some whose rows have a text. Reading a whole row would cost ten times
// as much.
func (p *past) saying(ctx context.Context, of []numbered, s *says) (rows map[uint32]bool, err error) {
	rows, of = map[uint32]bool{}, slices.Clone(of)
	sortByID(of)
	text := unmarked(s.text)
	read := func(tx *sql.Tx, _ uint64) error {
		return p.store.these(of, func(c *condition) error {
			if c.and("words IS NOT NULL"); plainPart(text) != "" {
				c.and("words LIKE ?", "%"+plainPart(text)+"%")
			}
			var id task.ID
			var words string
			return each(ctx, tx, "SELECT id, words FROM tasks WHERE "+c.text.String(), c.args, []any{&id, &words}, func() error {
				i, found := slices.BinarySearchFunc(of, id, func(t numbered, id task.ID) int { return cmp.Compare(t.id, id) })
				for j := range s.rows {
					if r := &s.rows[j]; found && r.of.has(of[i].number) && strings.Contains(view.Lower(r.part(words)), text) {
						rows[of[i].number] = true
					}
				}
				return nil
			})
		})
	}
	if p.now != nil {
		return rows, read(p.now.tx, 0)
	}
	return rows, p.store.view(ctx, "look for a text", read)
}

// these calls read with conditions that select the rows of tasks, which are in the order of their ids:
// all rows from the first to the last, if not many are others', because looking for each costs more.
func (s *Store) these(of []numbered, read func(c *condition) error) error {
	first, last := string(of[0].id), string(of[len(of)-1].id)
	if n, known := s.texts.rows(first, last); known && n <= 3*len(of) {
		c := new(condition)
		c.and("id >= ? AND id <= ?", first, last)
		return read(c)
	}
	ids := make([]task.ID, len(of))
	for i := range of {
		ids[i] = of[i].id
	}
	return inParts(ids, func(in string, args []any) error {
		c := new(condition)
		c.and(in, args...)
		return read(c)
	})
}

// talkedSince returns whose loose messages have changed since a text was looked up.
func (p *past) talkedSince(s *scene, is *says) taskSet {
	m, since := &p.store.then, newTaskSet(s.tasks)
	m.mu.Lock()
	defer m.mu.Unlock()
	is.talk.to(&s.spoken.messages, func(_ uint64, number uint32, _ uint64) bool {
		if number <= s.tasks && is.rows[1].of.has(number) {
			since.set(number, true)
		}
		return true
	})
	return since
}

// odd has the tasks of a scene of whose words the index does not tell, and those whose rows have others
// by now.
func (p *past) odd(ctx context.Context, s *scene) (odd taskSet, err error) {
	odd = newTaskSet(s.tasks)
	if p.now != nil {
		for number := range s.odd {
			odd.set(number, true)
		}
		return odd, nil
	}
	return odd, p.look(ctx, func(file io.ReaderAt, size int64) error {
		m := &p.store.then
		m.mu.Lock()
		defer m.mu.Unlock()
		err := m.cover(ctx, file, size, math.MaxUint64)
		for number := range m.odd {
			odd.set(number, true)
		}
		return err
	})
}
