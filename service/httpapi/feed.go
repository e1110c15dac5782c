package httpapi

import (
	"slices"
	"strings"
	"sync"

	"millrace/events"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/task"
)

// feedBytes is how many bytes of the log's end are kept for all followers together.
const feedBytes = 8 << 20

// feed is the end of the log, in the form in which followers get it: each record is made into a
// frame once, and a follower only has a position in it. It is a [projections.Observer].
type feed struct {
	bytes int // how many it may have

	mu        sync.Mutex
	followers int           // guarded by mu; without any, nothing is kept
	frames    []frameAt     // guarded by mu; in the order of the log
	size      int           // guarded by mu; bytes of the frames
	stale     int           // guarded by mu; bytes of dropped frames whose memory is still held
	floor     uint64        // guarded by mu; all records after this one, up to last, are in frames; 0 before there is any
	last      uint64        // guarded by mu
	changed   chan struct{} // guarded by mu; closed when there is more
}

type frameAt struct {
	seq    uint64
	text   []byte
	traits view.FactTraits
}

func newFeed() *feed { return &feed{bytes: feedBytes, changed: make(chan struct{})} }

// Observe takes new records. Known ones come again when the read model is rebuilt.
func (f *feed) Observe(steps []events.Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.followers == 0 {
		f.frames, f.size, f.stale, f.floor, f.last = nil, 0, 0, 0, 0
		return
	}
	for i := range steps {
		r := steps[i].Record
		if r.Seq <= f.last {
			continue
		}
		if f.last == 0 {
			f.floor = r.Seq - 1
		}
		f.last = r.Seq
		text := factFrame(r)
		f.frames = append(f.frames, frameAt{r.Seq, text, traitsOf(&steps[i])})
		for f.size += len(text); f.size > f.bytes; {
			n := len(f.frames[0].text)
			f.floor, f.size, f.stale = f.frames[0].seq, f.size-n, f.stale+n
			f.frames = f.frames[1:]
		}
		if f.stale > f.bytes { // readers may still hold the old ones
			f.frames, f.stale = slices.Clone(f.frames), 0
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// follow counts a follower, until leave is called.
func (f *feed) follow() (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.followers--
	}
}

// after returns the frames behind a sequence. has is false if the feed does not reach back that
// far: then floor is where it begins, 0 if it has nothing yet. changed closes when there is more.
func (f *feed) after(seq uint64) (frames []frameAt, has bool, floor uint64, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == 0 || seq < f.floor {
		return nil, false, f.floor, f.changed
	}
	first := len(f.frames)
	for first > 0 && f.frames[first-1].seq > seq {
		first--
	}
	return f.frames[first:], true, f.floor, f.changed
}

// traitsOf returns what filters ask of a record. Its texts are copied, for they are valid only as
// long as the batch.
func traitsOf(s *events.Step) view.FactTraits {
	is := view.TraitsOf(s.Record, s.Is.Queue)
	is.Type, is.Task = events.Type(strings.Clone(string(is.Type))), task.ID(strings.Clone(string(is.Task)))
	is.Node, is.Actor, is.Queue = strings.Clone(is.Node), strings.Clone(is.Actor), strings.Clone(is.Queue)
	return is
}

// factFrame returns a record as followers of the log get it.
func factFrame(r *events.Record) []byte {
	text, err := answers.ShowFact(r)
	if err != nil { // its parts were parsed from JSON
		text = []byte(`{}`)
	}
	kind := string(r.Fact.Type)
	if !r.IsFact() || r.Err != nil {
		kind = "other"
	}
	return frameOf(r.Seq, kind, text)
}
